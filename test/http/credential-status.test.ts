import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import type { DidAuthConfig } from 'express-did-auth'
import { createLoginText, createNumberedWallet, type TestWallet } from '../support/fixtures/fixtures.js'
import { startStatusListIssuer } from '../support/faults/status-list-issuer.js'
import { createStatusEntry, signCredentialWithStatus, signStatusList } from '../support/fixtures/status-lists.js'
import { testApp, type TestApp } from '../support/servers/test-app.js'

const user = createNumberedWallet(1)
const issuer = createNumberedWallet(6401)

const startService = (config: Partial<DidAuthConfig> = {}) =>
  testApp({
    serviceUrl: 'http://localhost:3000',
    loginDomains: ['service.example'],
    requiredCredentials: ['Email'],
    trustedIssuers: [issuer.did],
    credentialStatus: 'check',
    ...config
  })

/** Requests a challenge and signs it with a credential. Returns a function that sends the sign up. */
async function prepareSignUp({ app }: TestApp, credential: string, wallet: TestWallet = user, signer = wallet) {
  const { did } = wallet
  const { body } = await request(app).post('/request-signup').send({ did }).expect(200)
  const text = createLoginText('service.example', (body as { challenge: string }).challenge)
  const sig = signer.personalSign(`${text}\nMy credentials are: ${credential}`)
  return () =>
    request(app)
      .post('/signup')
      .send({ did, sig, credentials: [credential] })
}

describe('a sign up with credentialStatus', () => {
  it('succeeds with an active credential, and is refused with a revoked one', async () => {
    const host = await startStatusListIssuer(signStatusList(issuer, [9]))
    const service = await startService()
    const active = signCredentialWithStatus(issuer, user.did, createStatusEntry(host.url))
    await (await prepareSignUp(service, active))().expect(200)
    const revoked = createStatusEntry(host.url, { statusListIndex: '9' })
    const sendRevoked = await prepareSignUp(service, signCredentialWithStatus(issuer, user.did, revoked))
    await sendRevoked().expect(401, 'Revoked credential')
  })

  it('does not consume the challenge if the list is unavailable', async () => {
    const host = await startStatusListIssuer((_req, res) => res.writeHead(503).end())
    const service = await startService()
    const send = await prepareSignUp(service, signCredentialWithStatus(issuer, user.did, createStatusEntry(host.url)))
    const { headers } = await send().expect(503, 'Credential status unavailable, try again')
    expect(headers['retry-after']).toBe('5')
    const logged = service.log.find(({ fields }) => fields.code === 'ERR_CREDENTIAL_STATUS')
    expect(JSON.stringify(logged)).toContain(host.url)
    host.answer = signStatusList(issuer, [])
    await send().expect(200)
    await send().expect(401, 'Invalid challenge response: used')
  })

  it('fetches nothing for a bad signature, and for a forged, foreign, expired or missing credential', async () => {
    const host = await startStatusListIssuer(signStatusList(issuer, []))
    const service = await startService()
    const entry = createStatusEntry(host.url)
    const other = createNumberedWallet(6402)
    const good = signCredentialWithStatus(issuer, user.did, entry)
    const forged = signCredentialWithStatus({ did: issuer.did, privateKey: other.privateKey }, user.did, entry)
    const foreign = signCredentialWithStatus(other, user.did, entry)
    const borrowed = signCredentialWithStatus(issuer, other.did, entry)
    await (await prepareSignUp(service, good, user, other))().expect(401, 'Invalid challenge response')
    await (await prepareSignUp(service, forged))().expect(401, 'Invalid credential')
    await (await prepareSignUp(service, foreign))().expect(401, 'Unproved credential issuer')
    await (await prepareSignUp(service, borrowed))().expect(401, 'Invalid credential')
    service.clock.seconds += 2 * 86_400
    await (await prepareSignUp(service, good))().expect(401, 'Expired credential')
    expect(host.asked).toEqual([])
    const strict = await startService({ requiredCredentials: ['Email', 'Phone'] })
    await (await prepareSignUp(strict, good))().expect(401, 'Missing credentials or claims')
    expect(host.asked).toEqual([])
  })

  it('asks for the status before the business logic', async () => {
    const host = await startStatusListIssuer(signStatusList(issuer, [5]))
    const asked: string[] = []
    const service = await startService({ signupBusinessLogic: ({ issuer }) => void asked.push(issuer) })
    const send = await prepareSignUp(service, signCredentialWithStatus(issuer, user.did, createStatusEntry(host.url)))
    await send().expect(401, 'Revoked credential')
    expect(asked).toEqual([])
  })

  it('fetches one list once for 50 users at the same time', async () => {
    const host = await startStatusListIssuer((_req, res) => {
      setTimeout(() => res.end(signStatusList(issuer, [])), 200)
    })
    const service = await startService({ maxRequestsPerTimeSlot: Infinity })
    const wallets = Array.from({ length: 50 }, (_, number) => createNumberedWallet(6500 + number))
    const sends: Awaited<ReturnType<typeof prepareSignUp>>[] = []
    for (const wallet of wallets) {
      const credential = signCredentialWithStatus(issuer, wallet.did, createStatusEntry(host.url))
      sends.push(await prepareSignUp(service, credential, wallet))
    }
    const answers = await Promise.all(sends.map((send) => send()))
    expect(answers.map(({ status }) => status)).toEqual(Array(50).fill(200))
    expect(host.asked).toEqual(['/list'])
  })

  it('is ignored by default', async () => {
    const service = await startService({ credentialStatus: undefined })
    const credential = signCredentialWithStatus(issuer, user.did, { type: 'Other' })
    await (await prepareSignUp(service, credential))().expect(200)
  })
})
