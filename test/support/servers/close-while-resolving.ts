// Script that test/adapters/node-out-of-reach.test.ts runs in a separate process. The argument is the URL of an RPC
// node that never answers.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import express from 'express'
import { es256kSigner, setupDidAuth } from '../../../src/index.js'
import { createCredentialJwt } from '../fixtures/credentials.js'
import {
  challengeSecret,
  createLoginText,
  createNumberedWallet,
  serviceWallet,
  START_SECONDS
} from '../fixtures/fixtures.js'

const user = createNumberedWallet(1)
const ignore = (): undefined => undefined
const errors: unknown[] = []

const app = express()
const requireDid = setupDidAuth(app, {
  challengeSecret,
  serviceUrl: 'https://service.example',
  serviceDid: serviceWallet.did,
  serviceSigner: es256kSigner(serviceWallet.privateKey),
  rpcUrl: process.argv[2]!,
  // Credentials are verified only with business logic.
  signupBusinessLogic: () => undefined,
  logger: { info: ignore, warn: ignore, error: (fields) => errors.push(fields) },
  clock: { nowSeconds: () => START_SECONDS }
})
await requireDid.ready
const server = app.listen(0, '127.0.0.1')
await once(server, 'listening')
const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}`

const post = (path: string, body: object): Promise<Response> =>
  fetch(url + path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })

const { challenge } = (await (await post('/request-signup', { did: user.did })).json()) as { challenge: string }
const credential = createCredentialJwt(createNumberedWallet(2), user.did)
const sig = user.personalSign(`${createLoginText('service.example', challenge)}\nMy credentials are: ${credential}`)
const answer = post('/signup', { did: user.did, sig, credentials: [credential] })

process.once('message', () => {
  void requireDid.close().then(async () => {
    const { status } = await answer
    process.send!({ status, errors: JSON.stringify(errors) })
    process.disconnect()
    server.close()
    server.closeAllConnections()
  })
})
