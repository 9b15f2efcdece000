import { expect, it, jest } from '@jest/globals'
import express from 'express'
import * as hashWasm from 'hash-wasm'
import request from 'supertest'

let failures = 2
jest.unstable_mockModule('hash-wasm', () => ({
  ...hashWasm,
  createKeccak: async (bits: 256) => {
    failures -= 1
    if (failures >= 0) throw new Error('out of memory')
    return hashWasm.createKeccak(bits)
  }
}))
const { es256kSigner, setupDidAuth } = await import('express-did-auth')
const { challengeSecret, serviceWallet } = await import('./support/fixtures/fixtures.js')
const { serviceUrl } = await import('./support/servers/test-app.js')

// Cause: the rejection was cached forever, and every request got 500 until a restart.
it('a curve that fails to load rejects ready and causes 500, until a request loads it', async () => {
  const app = express()
  const logger = { info: jest.fn(), warn: jest.fn(), error: jest.fn() }
  const serviceSigner = es256kSigner(serviceWallet.privateKey)
  const serviceDid = serviceWallet.did
  const { ready } = setupDidAuth(app, { challengeSecret, serviceUrl, serviceDid, serviceSigner, logger })
  await expect(ready).rejects.toThrow('out of memory')
  const path = `/request-auth/${serviceDid}`
  await request(app).get(path).expect(500, 'Internal error')
  await request(app).get(path).expect(200)
  await request(app).get(path).expect(200)
  expect(failures).toBe(-1)
})
