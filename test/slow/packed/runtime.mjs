// Runs an application, its client and another service on the runtime of this file, and prints the results.
import { createServer } from 'node:http'
import express from 'express'
import { setupDidAuth } from 'express-did-auth'
import { DidAuthClient } from 'express-did-auth-client'
import { accessTokenFor, fakeClock, testConfig, wallet } from 'express-did-auth/testing'
import { accessTokenVerifier } from 'express-did-auth/verify'

const [runtime] = ['Deno', 'Bun'].filter((name) => name in globalThis)
console.log(runtime ?? 'Node')
const alice = wallet('alice')
const clock = fakeClock()
const config = { ...testConfig(), clock }
const app = express()
app.use((req, _res, next) => {
  console.log(req.method, req.path)
  next()
})
const requireDid = setupDidAuth(app, config)
app.get('/profile', requireDid, (req, res) => res.json(req.user))
const server = createServer(app)
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))

const { serviceDid: issuer, serviceUrl: audience } = config
const verify = accessTokenVerifier({ issuer, audience, clock })
const { did } = await verify(await accessTokenFor(alice.did, {}, config))
console.log('verified', did === alice.did)

const url = `http://127.0.0.1:${server.address().port}`
const client = new DidAuthClient({ url, wallet: alice, domain: new URL(audience).host, clock })
await client.logIn()
const visit = async () => {
  const answer = await client.fetch('/profile')
  console.log(answer.status, (await answer.json()).did === alice.did)
}
await visit()
clock.advance(590)
await visit()
await client.logOut()
console.log('logged out', (await client.fetch('/profile')).status)
server.closeAllConnections()
await new Promise((resolve) => server.close(resolve))
await requireDid.close()
