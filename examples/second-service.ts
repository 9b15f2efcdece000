/**
 * A second service that accepts the access tokens of the quick start, and of any other service with this package: no
 * store, no key of its own, and no request to the service that issued them. ISSUER is that one's `serviceDid`, which
 * changes at each start of the quick start unless PRIVATE_KEY is set: `npx express-did-auth-servers keys new` makes
 * PRIVATE_KEY for the quick start, and names its DID, the ISSUER here.
 */
import express from 'express'
import { accessTokenVerifier, requireToken } from 'express-did-auth/verify'

const verify = accessTokenVerifier({
  issuer: process.env.ISSUER ?? 'did:ethr:rsk:0x1a642f0e3c3af545e7acbd38b07251b3990914f1',
  audience: process.env.AUDIENCE ?? 'http://localhost:3000'
})

const app = express()
const orders = new Map<string, string[]>()

// Keep what belongs to a user by canonicalDid: one DID has many spellings.
app.use('/orders', requireToken(verify), express.json(), (req, res) => {
  const user = req.auth?.canonicalDid ?? ''
  const { order } = (req.body ?? {}) as { order?: unknown }
  if (req.method === 'POST' && typeof order === 'string') orders.set(user, [...(orders.get(user) ?? []), order])
  res.json({ did: req.user?.did, orders: orders.get(user) ?? [] })
})
app.listen(3001).on('listening', () => {
  console.log('http://localhost:3001')
})
