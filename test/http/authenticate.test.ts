import { describe, expect, it } from '@jest/globals'
import { IncomingMessage, type RequestListener } from 'node:http'
import { Socket } from 'node:net'
import request from 'supertest'
import { es256kSigner, setupDidAuth } from 'express-did-auth'
import { createDidAuth } from 'express-did-auth/fetch'
import express from 'express'
import { challengeSecret, createNumberedWallet, serviceWallet } from '../support/fixtures/fixtures.js'
import { refusal } from '../support/fixtures/refusal.js'
import { breakableStore, serviceUrl, testApp } from '../support/servers/test-app.js'

const wallet = createNumberedWallet(1)
const withToken = (token: string) => ({ authorization: `DIDAuth ${token}` })

/** Returns the request of an upgrade to a WebSocket, as Node's server makes it: without the members of Express. */
function createUpgrade(headers: Record<string, string>): IncomingMessage {
  const message = new IncomingMessage(new Socket())
  return Object.assign(message, { method: 'GET', url: '/socket', headers: { upgrade: 'websocket', ...headers } })
}

/** Logs in at a service in cookie mode, and returns the headers that a browser sends with a WebSocket. */
async function cookieApp() {
  const test = await testApp({ useCookies: true })
  const cookie = await test.logInForCookies()
  return { ...test, from: (origin: string) => ({ cookie, origin }) }
}

describe('requireDid.authenticate', () => {
  it('returns the user of a request that Express has not seen, and leaves the request as it is', async () => {
    const { requireDid, logIn } = await testApp()
    const req = createUpgrade(withToken((await logIn()).accessToken))
    const { user, auth } = await requireDid.authenticate(req)
    expect(user).toEqual({ did: wallet.did })
    expect(auth).toMatchObject({ canonicalDid: wallet.did, address: wallet.address.toLowerCase() })
    expect(Object.keys(req)).not.toEqual(expect.arrayContaining(['user']))
    expect(Object.keys(req)).not.toEqual(expect.arrayContaining(['auth']))
  })

  it('refuses with a DidAuthError each time, also a request that a proxy forwarded', async () => {
    const { requireDid } = await testApp()
    for (let number = 0; number < 3; number += 1) {
      await expect(requireDid.authenticate(createUpgrade({ 'x-forwarded-for': '192.0.2.7' }))).rejects.toEqual(
        refusal('ERR_ACCESS_TOKEN_MISSING')
      )
      await expect(requireDid.authenticate(createUpgrade(withToken('a.b.c')))).rejects.toEqual(
        refusal('ERR_ACCESS_TOKEN')
      )
    }
  })

  it.each(['http://evil.example', 'http://service.example', 'https://sub.service.example', 'null'])(
    'refuses a cookie with the origin %s, and accepts it with that of the service',
    async (origin) => {
      const { requireDid, from } = await cookieApp()
      const foreign = requireDid.authenticate(createUpgrade(from(origin)))
      await expect(foreign).rejects.toEqual(refusal('ERR_CROSS_ORIGIN'))
      expect(await requireDid.authenticate(createUpgrade(from(serviceUrl)))).toMatchObject({
        user: { did: wallet.did }
      })
    }
  )

  it('checks the origin of a GET that does not name an upgrade, as the first request of socket.io', async () => {
    const { requireDid, from } = await cookieApp()
    const polling = createUpgrade({ ...from('http://evil.example'), upgrade: '' })
    await expect(requireDid.authenticate(polling)).rejects.toEqual(refusal('ERR_CROSS_ORIGIN'))
  })

  it('charges a request once, however often it is checked', async () => {
    const { requireDid, logIn } = await testApp({ maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn()
    const req = createUpgrade(withToken(accessToken))
    await requireDid.authenticate(req)
    await requireDid.authenticate(req, { checkSession: true })
    const another = requireDid.authenticate(createUpgrade(withToken(accessToken)))
    await expect(another).rejects.toEqual(refusal('ERR_TOO_MANY_REQUESTS'))
  })

  it('has the options of a guard', async () => {
    const { requireDid, logIn } = await testApp()
    const { accessToken } = await logIn()
    expect(await requireDid.authenticate(createUpgrade({}), { optional: true })).toBeUndefined()
    const upgrade = () => createUpgrade(withToken(accessToken))
    const onlyAdmins = requireDid.authenticate(upgrade(), { allow: ({ claims }) => claims.role === 'admin' })
    await expect(onlyAdmins).rejects.toEqual(refusal('ERR_FORBIDDEN'))
    await requireDid.sessions.revokeAll(wallet.did)
    const checked = requireDid.authenticate(upgrade(), { checkSession: true })
    await expect(checked).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
  })

  it('rejects with ERR_STORE if the store fails', async () => {
    const { store, state } = breakableStore('findSession')
    const { requireDid, logIn } = await testApp({ store })
    const req = createUpgrade(withToken((await logIn()).accessToken))
    state.isBroken = true
    const checked = requireDid.authenticate(req, { checkSession: true })
    await expect(checked).rejects.toEqual(refusal('ERR_STORE'))
  })
})

describe('a guard without Express', () => {
  it('answers refusals of requests of Node, also behind a proxy, and lets a valid one pass', async () => {
    const { requireDid, logIn } = await testApp()
    const listener: RequestListener = (req, res) => requireDid(req, res, () => res.end('passed'))
    const ask = () => request(listener).get('/').set('X-Forwarded-For', '192.0.2.7')
    await ask().expect(401, 'Missing access token')
    await ask().expect(401, 'Missing access token')
    await ask()
      .set('Authorization', `DIDAuth ${(await logIn()).accessToken}`)
      .expect(200, 'passed')
  })

  it('refuses an upgrade with the cookie that another site caused', async () => {
    const { requireDid, from } = await cookieApp()
    const listener: RequestListener = (req, res) => requireDid(req, res, () => res.end('passed'))
    const ask = (origin: string) =>
      request(listener)
        .get('/')
        .set({ ...from(origin), Upgrade: 'WebSocket' })
    await ask('http://evil.example').expect(403)
    await ask(serviceUrl).expect(200, 'passed')
  })
})

describe('serviceDid', () => {
  const config = { challengeSecret, serviceUrl, serviceSigner: es256kSigner(serviceWallet.privateKey) }

  it('is the configured DID, or follows from the key of the signer', async () => {
    const serviceDid = 'did:ethr:sepolia:0x0000000000000000000000000000000000000001'
    expect(await setupDidAuth(express(), { ...config, serviceDid }).serviceDid).toBe(serviceDid)
    const computed = await setupDidAuth(express(), config).serviceDid
    expect(computed).toBe(await createDidAuth(config).serviceDid)
    expect(computed.toLowerCase()).toContain(serviceWallet.address.toLowerCase())
  })
})
