/**
 * Process with the routes of this package on a SQLite store, for tests in which a kill loses an answer. The first
 * argument is the database file. The process sends its port to the parent. With the second argument `kill`, it kills
 * itself after the commit of a rotation, before the answer. With `live`, it does not.
 */
import type { AddressInfo } from 'node:net'
import express from 'express'
import { es256kSigner, setupDidAuth } from '../../../src/index.js'
import { sqliteStore } from '../../../src/stores/sqlite/index.js'
import { challengeSecret, serviceWallet } from '../fixtures/fixtures.js'

const store = sqliteStore(process.argv[2] ?? '')
const isKilling = process.argv[3] === 'kill'

const rotate = store.rotateRefreshToken.bind(store)
store.rotateRefreshToken = async (rotation) => {
  const verdict = await rotate(rotation)
  // A repeat changes nothing. Only the answer to a rotation can be lost.
  if (isKilling && verdict === 'rotate') process.kill(process.pid, 'SIGKILL')
  return verdict
}

const app = express()
const requireDid = setupDidAuth(app, {
  challengeSecret,
  serviceUrl: 'https://service.example',
  serviceDid: serviceWallet.did,
  serviceSigner: es256kSigner(serviceWallet.privateKey),
  store
})
await requireDid.ready
process.on('disconnect', () => process.exit())
const server = app.listen(0, '127.0.0.1', () => {
  process.send?.((server.address() as AddressInfo).port)
})
