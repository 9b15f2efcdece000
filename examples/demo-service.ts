import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Wallet } from 'ethers'
import express from 'express'
import { canonicalDid, didOfPrivateKey, es256kSigner, setupDidAuth } from 'express-did-auth'
import type {} from 'express-did-auth/types'

/** The service of the demo: an Express app with DID login and one protected route. */
export interface DemoService {
  url: string
  /** Moves the service's clock ahead, so that the demo does not wait. */
  pass(seconds: number): void
  stop(): Promise<void>
}

/** @param trustedIssuer - DID of the issuer whose e-mail credentials the service accepts */
export async function startService(trustedIssuer: string): Promise<DemoService> {
  const app = express()
  const server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://localhost:${(server.address() as AddressInfo).port}`
  const privateKey = Wallet.createRandom().privateKey
  let passedSeconds = 0

  const requireDid = setupDidAuth(app, {
    challengeSecret: 'a secret only for this demo, of 32 bytes or more',
    serviceUrl: url,
    serviceDid: await didOfPrivateKey(privateKey),
    serviceSigner: es256kSigner(privateKey),
    requiredCredentials: ['EmailCredential'],
    signupBusinessLogic: ({ credentials }) => {
      const credential = credentials.find(({ type }) => type.includes('EmailCredential'))
      if (credential === undefined) throw new Error('An e-mail credential is needed')
      if (canonicalDid(credential.issuer) !== canonicalDid(trustedIssuer)) throw new Error('That issuer is not trusted')
      return { tokenClaims: { email: String(credential.credentialSubject.email) } }
    },
    clock: { nowSeconds: () => Date.now() / 1000 + passedSeconds },
    logger: { info: () => undefined, warn: () => undefined, error: console.error }
  })
  app.get('/profile', requireDid, (req, res) => {
    res.json({ did: req.user?.did, email: req.auth?.claims.email })
  })
  await requireDid.ready

  return {
    url,
    pass: (seconds) => {
      passedSeconds += seconds
    },
    stop: async () => {
      await requireDid.close()
      server.closeAllConnections()
      server.close()
    }
  }
}
