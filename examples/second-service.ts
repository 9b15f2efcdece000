/**
 * A second service that accepts the access tokens of the quick start, or of any other service with this package. It
 * needs no store, no key, and no request to the issuing service. ISSUER is the `serviceDid` of the issuing service. Set
 * PRIVATE_KEY for the quick start, because its DID otherwise changes at each start. The command
 * `npx express-did-auth-servers keys new` prints a PRIVATE_KEY and its DID.
 */
import express from 'express'
import type {} from 'express-did-auth/types'
import { accessTokenVerifier, requireToken } from 'express-did-auth/verify'

const verify = accessTokenVerifier({
  issuer: process.env.ISSUER ?? 'did:ethr:rsk:0x1a642f0e3c3af545e7acbd38b07251b3990914f1',
  audience: process.env.AUDIENCE ?? 'http://localhost:3000'
})

const app = express()
const orders = new Map<string, string[]>()

// Identify users by canonicalDid, because one DID has many spellings.
app.use('/orders', requireToken(verify), express.json(), (req, res) => {
  const user = req.auth?.canonicalDid ?? ''
  const { order } = (req.body ?? {}) as { order?: unknown }
  if (req.method === 'POST' && typeof order === 'string') orders.set(user, [...(orders.get(user) ?? []), order])
  res.json({ did: req.user?.did, orders: orders.get(user) ?? [] })
})
app.listen(3001).on('listening', () => {
  console.log('http://localhost:3001')
})
