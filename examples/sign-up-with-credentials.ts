/**
 * Sign up with a credential of a trusted issuer, and a claim of the user. Only users who have signed up can log in.
 */
import { randomBytes } from 'node:crypto'
import express from 'express'
import { canonicalDid, didOfPrivateKey, es256kSigner, setupDidAuth } from 'express-did-auth'
import type {} from 'express-did-auth/types'

const ISSUERS = new Set((process.env.TRUSTED_ISSUERS ?? '').split(',').map(canonicalDid))
const users = new Map<string, { email: string; name: string }>()

const privateKey = process.env.PRIVATE_KEY ?? randomBytes(32).toString('hex')
const app = express()
const requireDid = setupDidAuth(app, {
  challengeSecret: process.env.CHALLENGE_SECRET ?? randomBytes(32).toString('hex'),
  serviceUrl: 'http://localhost:3000',
  serviceDid: await didOfPrivateKey(privateKey),
  serviceSigner: es256kSigner(privateKey),
  maxRequestsPerTimeSlot: 1000,

  requiredCredentials: ['EmailCredential'],
  requiredClaims: [{ claimType: 'name', claimValue: '', reason: 'to greet you', essential: true }],

  signupBusinessLogic({ issuer: did, credentials, claims, missing }) {
    if (missing.credentials.length + missing.claims.length > 0)
      throw new Error('An e-mail credential and a name please')
    // The signature is already verified. Check the issuer, because anybody can issue credentials.
    const credential = credentials.find(({ type }) => type.includes('EmailCredential'))
    if (credential?.subject === undefined || !ISSUERS.has(canonicalDid(credential.issuer))) {
      throw new Error('That issuer is not trusted here')
    }
    const email = String(credential.credentialSubject.email)
    const name = claims.find(({ claimType }) => claimType === 'name')?.claimValue ?? ''
    users.set(canonicalDid(did), { email, name })
    return { tokenClaims: { email } }
  },

  authenticationBusinessLogic(did) {
    const user = users.get(canonicalDid(did))
    if (user === undefined) throw new Error('Sign up first')
    return { tokenClaims: { email: user.email } }
  }
})

app.get('/profile', requireDid, (req, res) => {
  res.json({ did: req.user?.did, email: req.auth?.claims.email })
})
app.listen(3000).on('listening', () => {
  console.log('http://localhost:3000')
})
