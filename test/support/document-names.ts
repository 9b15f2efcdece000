/** Names that the documents' code uses without importing them, so that the tests can compile and run it. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Wallet } from 'ethers'
import express from 'express'
import {
  didOfPrivateKey,
  es256kSigner,
  memoryStore,
  setupDidAuth as setup,
  type DidAuthConfig,
  type Store
} from 'express-did-auth'

export const privateKey = '07'.repeat(32)
export const challengeSecret = 'a secret of the tests, longer than 32 bytes'
export const serviceUrl = 'https://service.example'
export const serviceDid = await didOfPrivateKey(privateKey)

export const setupDidAuth = setup
export const wallet = new Wallet(`0x${'08'.repeat(32)}`)
export const did = `did:ethr:rsk:${wallet.address.toLowerCase()}`
export const domain = 'service.example'
export const config: DidAuthConfig = {
  challengeSecret,
  serviceUrl,
  serviceDid,
  serviceSigner: es256kSigner(privateKey),
  logger: { info: () => undefined, warn: () => undefined, error: () => undefined }
}
export const app = express()
export const requireDid = setup(app, config)
export const myStore = (): Store => memoryStore()

/** Fake browser context with the methods that the test kit calls. */
export const context = {
  exposeFunction: async (_name: string, _answer: (message: unknown) => Promise<unknown>): Promise<void> => undefined,
  addInitScript: async (_script: string): Promise<void> => undefined
}

export const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
export const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
