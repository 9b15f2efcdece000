/** Child process of the benchmark: serves one variant, and tells its CPU time when asked. */
import { didOfPrivateKey, es256kSigner, setupDidAuth } from 'express-did-auth'
import express from 'express'
import session from 'express-session'
import { generateNonce, SiweMessage } from 'siwe'
import { SERVICE_KEY, SERVICE_URL, type Variant } from './variants.js'

const variant = process.argv[2] as Variant
const app = express()
const tokens = { accessToken: 'a'.repeat(520), refreshToken: 'r'.repeat(43) }
const challenge = { challenge: 'c'.repeat(64) }

if (variant === 'did-auth' || variant === 'did-auth-sqlite') {
  const store =
    variant === 'did-auth'
      ? {}
      : { store: (await import('express-did-auth/stores/sqlite')).sqliteStore(process.argv[3]!) }
  const requireDid = setupDidAuth(app, {
    challengeSecret: 'secret of the benchmark, 32 bytes or more',
    serviceUrl: SERVICE_URL,
    serviceDid: await didOfPrivateKey(SERVICE_KEY),
    serviceSigner: es256kSigner(SERVICE_KEY),
    maxRequestsPerTimeSlot: Number.POSITIVE_INFINITY,
    ...store
  })
  await requireDid.ready
  app.get('/guarded', requireDid, (_req, res) => {
    res.json({ hello: 'world' })
  })
}
if (variant === 'siwe') {
  app.use(session({ secret: 's'.repeat(32), resave: false, saveUninitialized: false }))
  app.post('/request-auth', (req, res) => {
    Object.assign(req.session, { nonce: generateNonce() })
    res.json({ challenge: (req.session as unknown as { nonce: string }).nonce })
  })
  app.post('/auth', express.json(), (req, res) => {
    const { message, signature } = req.body as { message: string; signature: string }
    const { nonce } = req.session as unknown as { nonce: string }
    void new SiweMessage(message).verify({ signature, nonce }).then(({ success, data }) => {
      Object.assign(req.session, { address: data.address })
      res.status(success ? 200 : 401).json({ ok: success })
    })
  })
  app.get('/guarded', (req, res) => {
    if (!('address' in req.session)) {
      res.status(401).end()
      return
    }
    res.json({ hello: 'world' })
  })
}
app.get('/bare', (_req, res) => {
  res.json({ hello: 'world' })
})
// A route as an Express developer writes it, which reads its JSON, and one that only drains the body.
const answers: express.RequestHandler[] = [challenge, tokens].map((body) => (_req, res) => {
  res.json(body)
})
const drain: express.RequestHandler = (req, _res, next) => {
  req.on('end', next).resume()
}
app.post('/bare-challenge', express.json(), answers[0]!)
app.post('/bare-tokens', express.json(), answers[1]!)
app.post('/drained-challenge', drain, answers[0]!)
app.post('/drained-tokens', drain, answers[1]!)

const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as { port: number }).port })
})
process.on('SIGTERM', () => process.exit(0))
process.on('message', (message) => {
  if (message === 'memory') {
    globalThis.gc?.()
    process.send?.({ heapBytes: process.memoryUsage().heapUsed })
    return
  }
  const { user, system } = process.cpuUsage()
  process.send?.({ cpuMicroseconds: user + system })
})
// The pauses between rounds are longer than what a server usually waits.
server.keepAliveTimeout = 600_000
