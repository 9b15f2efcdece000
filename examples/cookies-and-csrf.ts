/**
 * Tokens in cookies, which no script can read. Requests that another site triggers in a browser are refused with 403.
 */
import { randomBytes } from 'node:crypto'
import express from 'express'
import { didOfPrivateKey, es256kSigner, setupDidAuth } from 'express-did-auth'

const privateKey = process.env.PRIVATE_KEY ?? randomBytes(32).toString('hex')
const app = express()
const requireDid = setupDidAuth(app, {
  challengeSecret: process.env.CHALLENGE_SECRET ?? randomBytes(32).toString('hex'),
  serviceUrl: 'http://localhost:3000',
  serviceDid: await didOfPrivateKey(privateKey),
  serviceSigner: es256kSigner(privateKey),
  useCookies: true,
  maxRequestsPerTimeSlot: 1000,
  // The origin of serviceUrl is always trusted. This adds a second page that may write.
  trustedOrigins: ['https://app.example']
})

// The origin of a GET is not checked, so a GET must not change anything.
const notes: string[] = []
app.get('/notes', requireDid, (_req, res) => {
  res.json(notes)
})

// requireDid protects your own routes. Pages call them with `credentials: 'include'`.
app.post('/notes', requireDid, express.json(), (req, res) => {
  const { note } = req.body as { note?: unknown }
  if (typeof note !== 'string') {
    res.sendStatus(400)
    return
  }
  notes.push(note)
  res.sendStatus(201)
})
app.listen(3000).on('listening', () => {
  console.log('http://localhost:3000')
})
