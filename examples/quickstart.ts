import { randomBytes } from 'node:crypto'
import express from 'express'
import { es256kSigner, setupDidAuth } from 'express-did-auth'

const app = express()
const requireDid = setupDidAuth(app, {
  challengeSecret: process.env.CHALLENGE_SECRET ?? randomBytes(32).toString('hex'),
  serviceUrl: 'http://localhost:3000',
  serviceSigner: es256kSigner(process.env.PRIVATE_KEY ?? randomBytes(32).toString('hex')),
  maxRequestsPerTimeSlot: 1000
})
app.get('/profile', requireDid, (req, res) => res.json(req.user))
app.listen(3000).on('listening', () => console.log('http://localhost:3000'))
