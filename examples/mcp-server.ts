/**
 * An MCP server that machines log in to with a DID. It needs `express`, `express-did-auth`,
 * `@modelcontextprotocol/server` and `@modelcontextprotocol/node`. Clients of MCP find the login by themselves: the 401
 * of /mcp names the metadata of this resource, and they name the token endpoint. The login and the MCP server may also
 * be two services, see the reference. examples/mcp-server-sdk1.ts uses version 1 of the SDK.
 */
import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server'
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
  server.registerTool('count', { description }, ({ http }) => {
    const did = http?.authInfo?.extra?.canonicalDid
    const count = (calls.get(did) ?? 0) + 1
    calls.set(did, count)
    return { content: [{ type: 'text', text: `${String(did)}: ${String(count)}` }] }
  })
  return server
}

const answer = toNodeHandler(createMcpHandler(createServer))
app.post('/mcp', requireToken(verify, { resourceMetadata: metadata.url }), express.json(), (req, res, next) => {
  answer(Object.assign(req, { auth: toAuthInfo(req) }), res, req.body).catch(next)
})
app.listen(3000).on('listening', () => {
  console.log('http://localhost:3000')
})
