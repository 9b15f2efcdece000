// An app that tests can import. Another file calls listen(). See src/testing/README.md for its test.
import { randomBytes } from 'node:crypto'
import express from 'express'
import { didOfPrivateKey, es256kSigner, setupDidAuth } from 'express-did-auth'

export async function makeApp(options = {}) {
  const privateKey = process.env.PRIVATE_KEY ?? randomBytes(32).toString('hex')
  const app = express()
  const requireDid = setupDidAuth(app, {
    challengeSecret: process.env.CHALLENGE_SECRET ?? randomBytes(32).toString('hex'),
    serviceUrl: 'http://localhost:3000',
    serviceDid: await didOfPrivateKey(privateKey),
    serviceSigner: es256kSigner(privateKey),
    maxRequestsPerTimeSlot: 1000,
    ...options
  })
  app.get('/profile', requireDid, (req, res) => res.json(req.user))
  return app
}
