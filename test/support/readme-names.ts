/** What the pieces of code in README.md take for granted, so that the tests can compile and run them. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { Wallet } from 'ethers'
import express from 'express'
import {
  didOfPrivateKey,
  es256kSigner,
  MemoryStore,
  setupDidAuth as setup,
  type DidAuthConfig,
  type Store
} from 'express-did-auth'

const serviceKey = '07'.repeat(32)

export const setupDidAuth = setup
export const wallet = new Wallet(`0x${'08'.repeat(32)}`)
export const did = `did:ethr:rsk:${wallet.address.toLowerCase()}`
export const domain = 'service.example'
export const config: DidAuthConfig = {
  challengeSecret: 'a secret of the tests, longer than 32 bytes',
  serviceUrl: 'https://service.example',
  serviceDid: await didOfPrivateKey(serviceKey),
  serviceSigner: es256kSigner(serviceKey),
  logger: { info: () => undefined, warn: () => undefined, error: () => undefined }
}
export const app = express()
export const requireDid = setup(app, config)
export const myStore = (): Store => new MemoryStore()

export const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
export const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
