/**
 * The server that strangers attack, as a process of its own: it looks at credentials at sign up, and resolves each issuer
 * to what an attacker could publish. Tells its parent its port, and its memory when it is asked.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { es256kSigner, setupDidAuth } from 'express-did-auth'
import { p256Key } from '../support/credentials.js'
import { benchWallet } from './bench-wallet.js'

const SERVICE_NUMBER = 7_777
const { publicKeyJwk } = p256Key()

/** A DID document with many keys: 3,000 are refused for their number, 100 are the most that is allowed. */
function documentOf(did: string, keys: number): object {
  const verificationMethod = Array.from({ length: keys }, (_, number) => ({
    id: `${did}#${String(number)}`,
    type: 'JsonWebKey2020',
    controller: did,
    publicKeyJwk
  }))
  const didDocument = { id: did, verificationMethod, assertionMethod: verificationMethod.map(({ id }) => id) }
  return { didResolutionMetadata: {}, didDocumentMetadata: {}, didDocument }
}

const app = express()
app.set('trust proxy', true)
const requireDid = setupDidAuth(app, {
  challengeSecret: 'a secret of the strangers, longer than 32 bytes',
  serviceUrl: 'https://bench.example',
  serviceDid: benchWallet(SERVICE_NUMBER).did,
  serviceSigner: es256kSigner(SERVICE_NUMBER.toString(16).padStart(64, '0')),
  signupBusinessLogic: () => undefined,
  resolver: {
    resolve: (did) =>
      did.includes('silent')
        ? new Promise(() => undefined)
        : Promise.resolve(documentOf(did, did.includes('huge') ? 3_000 : 100))
  },
  logger: { info: () => undefined, warn: () => undefined, error: () => undefined }
})
await requireDid.ready

const server = createServer(app)
server.listen(0, '127.0.0.1', () => process.send?.({ port: (server.address() as AddressInfo).port }))
process.on('message', () => {
  globalThis.gc?.()
  globalThis.gc?.()
  process.send?.({ heapUsed: process.memoryUsage().heapUsed })
})
process.on('disconnect', () => process.exit())
