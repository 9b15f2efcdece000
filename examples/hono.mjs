// An app on Hono with login and a protected route, without Express: `npm install hono @hono/node-server`.
// src/fetch/README.md has the same for Next.js, Fastify, h3, Bun, Deno and Workers.
import { randomBytes } from 'node:crypto'
import { serve } from '@hono/node-server'
import { getConnInfo } from '@hono/node-server/conninfo'
import { createDidAuth, es256kSigner } from 'express-did-auth/fetch'
import { Hono } from 'hono'

const didAuth = createDidAuth({
  challengeSecret: process.env.CHALLENGE_SECRET ?? randomBytes(32).toString('hex'),
  serviceUrl: 'http://localhost:3000',
  serviceSigner: es256kSigner(process.env.PRIVATE_KEY ?? randomBytes(32).toString('hex')),
  siwe: true,
  maxRequestsPerTimeSlot: 1000
})

// The address of the connection. Behind a proxy, the address is c.req.header('x-real-ip'), which the proxy has to set.
const contextOf = (c) => ({ clientAddress: getConnInfo(c).remote.address })

/** Lets only users pass, as `requireDid` of Express does. */
const requireDid = async (c, next) => {
  const { user, auth } = await didAuth.authenticate(c.req.raw, contextOf(c))
  c.set('user', user)
  c.set('auth', auth)
  await next()
}

const app = new Hono()
// Hono's own errors have a response.
app.onError((error, c) => error.getResponse?.() ?? didAuth.errorResponse(error, c.req.raw))
app.use(async (c, next) => (await didAuth.fetch(c.req.raw, contextOf(c))) ?? next())

app.get('/', (c) => c.text('Everybody can read this.'))
app.get('/profile', requireDid, (c) => c.json(c.get('user')))
app.post('/notes', requireDid, async (c) => c.json({ by: c.get('auth').canonicalDid, note: await c.req.json() }))
app.delete('/sessions', requireDid, async (c) =>
  c.json({ ended: await didAuth.sessions.revokeAll(c.get('auth').canonicalDid) })
)

serve({ fetch: app.fetch, port: 3000 }, () => console.log('http://localhost:3000'))
