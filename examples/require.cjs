// The quick start as CommonJS, for Express 4 and 5. Node 20.19 or newer loads the package with require().
const { randomBytes } = require('node:crypto')
const express = require('express')
const { es256kSigner, setupDidAuth } = require('express-did-auth')

const privateKey = process.env.PRIVATE_KEY ?? randomBytes(32).toString('hex')
const app = express()
const requireDid = setupDidAuth(app, {
  challengeSecret: process.env.CHALLENGE_SECRET ?? randomBytes(32).toString('hex'),
  serviceUrl: 'http://localhost:3000',
  serviceSigner: es256kSigner(privateKey),
  maxRequestsPerTimeSlot: 1000 // per user in ten minutes
})
app.get('/profile', requireDid, (req, res) => res.json(req.user))
app.listen(3000).on('listening', () => console.log('http://localhost:3000'))
