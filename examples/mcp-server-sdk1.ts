/**
 * The same server as examples/mcp-server.ts, on version 1 of the SDK:
 * `npm install express express-did-auth @modelcontextprotocol/sdk`.
 */
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import express from 'express'
import { es256kSigner, setupDidAuth } from 'express-did-auth'
import { protectedResource, requireToken, resourceTokenVerifier, toAuthInfo } from 'express-did-auth/verify'

const serviceUrl = 'http://localhost:3000'
const resource = `${serviceUrl}/mcp`
// Key of the tokens. Store it with your secrets in production: all instances need the same one.
const resourceKeys = [generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' })]
// Machines that may log in, separated by commas. Any DID may, if there are none.
const machines = (process.env.MACHINES ?? '').split(',').filter(Boolean)

const app = express()
setupDidAuth(app, {
  challengeSecret: process.env.CHALLENGE_SECRET ?? randomBytes(32).toString('hex'),
  serviceUrl,
  serviceSigner: es256kSigner(process.env.PRIVATE_KEY ?? randomBytes(32).toString('hex')),
  machineLogin: true,
  resources: [resource],
  resourceKeys,
  authenticationBusinessLogic: (did, user) => !user.machine || machines.length === 0 || machines.includes(did)
})

const metadata = protectedResource({ resource, authorizationServers: [serviceUrl] })
const verify = resourceTokenVerifier({ issuer: serviceUrl, audience: resource, keys: resourceKeys })
app.use(metadata.handler)

const calls = new Map<unknown, number>()

function createServer(): McpServer {
  const server = new McpServer({ name: 'counter', version: '1.0.0' })
  const description = 'Counts the calls of each machine.'
  // The result of `toAuthInfo` for the request. `extra` has the members of `req.auth`.
  server.registerTool('count', { description }, ({ authInfo }) => {
    const did = authInfo?.extra?.canonicalDid
    const count = (calls.get(did) ?? 0) + 1
    calls.set(did, count)
    return { content: [{ type: 'text', text: `${String(did)}: ${String(count)}` }] }
  })
  return server
}

app.post('/mcp', requireToken(verify, { resourceMetadata: metadata.url }), express.json(), async (req, res) => {
  const transport = new StreamableHTTPServerTransport({ enableJsonResponse: true })
  res.on('close', () => void transport.close())
  await createServer().connect(transport)
  await transport.handleRequest(Object.assign(req, { auth: toAuthInfo(req) }), res, req.body)
})
app.listen(3000).on('listening', () => {
  console.log('http://localhost:3000')
})
