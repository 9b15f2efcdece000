import { describe, expect, it } from '@jest/globals'
import { es256kSigner, memoryStore } from 'express-did-auth'
import { decodeJwt } from 'jose'
import request from 'supertest'
import { testApp } from '../support/servers/test-app.js'
import { createNumberedWallet, serviceWallet } from '../support/fixtures/fixtures.js'

const next = createNumberedWallet(7)
const renewed = { serviceDid: next.did, serviceSigner: es256kSigner(next.privateKey) }

/** Returns the status of a guarded request with a token by the previous key, and the application with the new key. */
async function rotated(config: Parameters<typeof testApp>[0]) {
  const store = memoryStore()
  const before = await testApp({ store, maxRequestsPerTimeSlot: 1_000 })
  const { accessToken, refreshToken } = await before.logIn()
  const after = await testApp({ store, maxRequestsPerTimeSlot: 1_000, ...config })
  const requestStatus = async (token: string) =>
    (await request(after.app).get('/me').set('Authorization', `DIDAuth ${token}`)).status
  return { ...after, statusOf: requestStatus, accessToken, refreshToken }
}

describe('the service with a new key', () => {
  // Cause: every client got 401 for up to ten minutes.
  it('accepts access tokens of previousServiceDids until their exp, and signs with the new key', async () => {
    const {
      statusOf: requestStatus,
      accessToken,
      refreshToken,
      post,
      clock
    } = await rotated({ ...renewed, previousServiceDids: [serviceWallet.did] })
    expect(await requestStatus(accessToken)).toBe(200)
    const refreshed = (await post('/refresh-token', { refreshToken }).expect(200)).body
    expect(decodeJwt(refreshed.accessToken).iss).toBe(next.did)
    expect(await requestStatus(refreshed.accessToken)).toBe(200)
    clock.seconds += 600
    expect(await requestStatus(accessToken)).toBe(401)
  })

  it('accepts them if the DID does not change', async () => {
    const config = { serviceDid: serviceWallet.did, serviceSigner: renewed.serviceSigner }
    const { statusOf: requestStatus, accessToken } = await rotated({
      ...config,
      previousServiceDids: [serviceWallet.did]
    })
    expect(await requestStatus(accessToken)).toBe(200)
  })

  it('refuses them without the option, and those of another key', async () => {
    const { statusOf: requestStatus, accessToken } = await rotated(renewed)
    expect(await requestStatus(accessToken)).toBe(401)
    const other = await rotated({ ...renewed, previousServiceDids: [createNumberedWallet(8).did] })
    expect(await other.statusOf(accessToken)).toBe(401)
  })

  it('refuses a DID whose key it cannot derive', async () => {
    const setup = testApp({ previousServiceDids: ['did:web:auth.example'] })
    await expect(setup).rejects.toThrow('previousServiceDids: received ["did:web:auth.example"]; give an array')
  })
})
