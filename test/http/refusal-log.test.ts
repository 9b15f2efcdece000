import { describe, expect, it, jest } from '@jest/globals'
import request from 'supertest'
import type { DidAuthConfig, Logger } from 'express-did-auth'
import { logIn, logInForCookies, loginChallenge, signedLogin } from '../support/app-client.js'
import { testApp } from '../support/test-app.js'
import { loginText, walletOf } from '../support/wallet.js'

const wallet = walletOf(1)

/** An application whose log at debug and at warn the test reads. */
async function loggingApp(config: Partial<DidAuthConfig> = {}) {
  const [debug, warn] = [jest.fn<NonNullable<Logger['debug']>>(), jest.fn<Logger['warn']>()]
  const logger = { debug, info: () => undefined, warn, error: () => undefined }
  const test = await testApp({ ...config, logger })
  return { ...test, debug, warn, refusals: () => debug.mock.calls.map(([fields]) => fields) }
}

describe('the log of refused requests', () => {
  it('has the code of each at debug, with the check that refused it', async () => {
    const { app, refusals } = await loggingApp()
    await request(app).get('/me').expect(401)
    await request(app).get('/me').set('Authorization', 'Bearer secret').expect(401)
    await request(app).get('/me').set('Authorization', 'DIDAuth secret').expect(401)
    await request(app).post('/auth').send({ did: 'secret' }).expect(401)
    await request(app).post('/auth').send({ did: wallet.did, sig: 'secret' }).expect(401)
    await request(app).post('/refresh-token').send({ refreshToken: 7 }).expect(401)
    const refused = { event: 'request-refused' }
    expect(refusals()).toEqual([
      { ...refused, code: 'ERR_ACCESS_TOKEN_MISSING' },
      {
        ...refused,
        code: 'ERR_ACCESS_TOKEN',
        reason: { check: 'Authorization', expected: 'DIDAuth <token>' }
      },
      {
        ...refused,
        code: 'ERR_ACCESS_TOKEN',
        reason: { check: 'form', expected: 'a compact JWT of at most 4096 bytes' }
      },
      {
        ...refused,
        code: 'ERR_DID',
        reason: { check: 'did', expected: 'a DID of at most 128 characters', got: 'string' }
      },
      {
        ...refused,
        code: 'ERR_SIGNATURE',
        reason: { check: 'sig', expected: '0x and 130 hexadecimal digits', got: 'string' }
      },
      {
        ...refused,
        code: 'ERR_REFRESH_TOKEN',
        reason: { check: 'form', expected: 'a refresh token of a session', got: 'number' }
      }
    ])
  })

  it('names the accepted domains and the recovered address of a signature by another account', async () => {
    const { app, refusals } = await loggingApp({ loginDomains: ['other.example'] })
    const challenge = await loginChallenge(app, wallet.did)
    const sig = walletOf(2).personalSign(loginText('service.example', challenge))
    await request(app).post('/auth').send({ did: wallet.did, sig }).expect(401, 'Invalid challenge response')
    const [refusal] = refusals()
    expect(refusal).toMatchObject({
      code: 'ERR_CHALLENGE',
      reason: {
        check: 'signer',
        acceptedDomains: ['service.example', 'https://service.example', 'other.example'],
        recoveredAddresses: [walletOf(2).address.toLowerCase(), expect.any(String), expect.any(String)]
      }
    })
    const line = JSON.stringify(refusal)
    expect([challenge, sig, wallet.did].filter((secret) => line.includes(secret))).toEqual([])
  })

  it('holds no signature, challenge or token of a used challenge and a used refresh token', async () => {
    const { app, refusals } = await loggingApp({ refreshReuseGraceSeconds: 0 })
    const login = await signedLogin(app, wallet)
    await request(app).post('/auth').send(login).expect(200)
    await request(app).post('/auth').send(login).expect(401)
    const { refreshToken } = await logIn(app, wallet)
    await request(app).post('/refresh-token').send({ refreshToken }).expect(200)
    await request(app).post('/refresh-token').send({ refreshToken }).expect(401)
    expect(refusals()).toEqual([
      { event: 'request-refused', code: 'ERR_CHALLENGE_USED' },
      {
        event: 'request-refused',
        code: 'ERR_REFRESH_TOKEN',
        reason: { check: 'session', expected: 'rotate', got: 'replaced' }
      }
    ])
  })

  it('has the fixed text of a code, where the answer has the words of the application', async () => {
    const refused = (): never => {
      throw new Error('Jane is not on the list')
    }
    const { app, debug } = await loggingApp({ authenticationBusinessLogic: refused })
    const login = await signedLogin(app, wallet)
    await request(app).post('/auth').send(login).expect(401, 'Jane is not on the list')
    expect(debug.mock.calls.map(([, message]) => message)).toEqual(['Refused'])
  })

  it('names the option at warn with the first 429 of each budget, once', async () => {
    const { app, warn } = await loggingApp({ maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn(app, wallet)
    const ask = () => request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`)
    await ask().expect(200)
    for (let number = 0; number < 3; number += 1) await ask().expect(429)
    const did = walletOf(3).did
    for (let number = 0; number < 10; number += 1) await request(app).post('/request-auth').send({ did }).expect(200)
    for (let number = 0; number < 3; number += 1) await request(app).post('/request-auth').send({ did }).expect(429)
    const reason = { check: 'quota', option: 'maxRequestsPerTimeSlot' }
    const line = { event: 'first-refusal', code: 'ERR_TOO_MANY_REQUESTS' }
    expect(warn.mock.calls.map(([fields]) => fields)).toEqual([
      { ...line, reason: { ...reason, budget: 'requests', limit: 1 } },
      { ...line, reason: { ...reason, budget: 'namings', limit: 10 } }
    ])
    expect(warn.mock.calls[0]?.[1]).toBe(
      'first refusal by the budget of requests: the option maxRequestsPerTimeSlot decides; later ones are logged at debug'
    )
  })

  it('names trustedOrigins at warn with the first 403, once, and the host that was refused', async () => {
    const { app, warn, refusals } = await loggingApp({ useCookies: true, trustedOrigins: ['https://app.example'] })
    const cookies = await logInForCookies(app, wallet)
    for (let number = 0; number < 2; number += 1) {
      const sent = request(app).post('/logout').set('Cookie', cookies).set('Origin', 'https://evil.example')
      await sent.set('Sec-Fetch-Site', 'cross-site').expect(403)
    }
    const reason = {
      check: 'origin',
      expected: ['https://service.example', 'https://app.example'],
      got: 'evil.example',
      secFetchSite: 'cross-site',
      option: 'trustedOrigins'
    }
    expect(warn.mock.calls).toEqual([
      [
        { event: 'first-refusal', code: 'ERR_CROSS_ORIGIN', reason },
        'first refusal of this code: the option trustedOrigins decides; later ones are logged at debug'
      ]
    ])
    expect(refusals()).toHaveLength(2)
  })

  // Cause: with the default logger, nothing told an operator why every proof or token was refused.
  it('has the first of each code at warn, with the check and without what a signature recovers to', async () => {
    const { app, log } = await testApp()
    const { did } = wallet
    for (let number = 0; number < 2; number += 1) {
      await request(app).get('/me').expect(401)
      await request(app).get('/me').set('Authorization', 'Bearer secret').expect(401)
      const challenge = await loginChallenge(app, did)
      const sig = walletOf(2).personalSign(loginText('service.example', challenge))
      await request(app).post('/auth').send({ did, sig }).expect(401)
    }
    const message = 'first refusal of this code: pass a logger with debug for the reason'
    const line = { level: 'warn', message }
    expect(log).toEqual([
      { ...line, fields: { event: 'first-refusal', code: 'ERR_ACCESS_TOKEN_MISSING' } },
      { ...line, fields: { event: 'first-refusal', code: 'ERR_ACCESS_TOKEN', reason: { check: 'Authorization' } } },
      { ...line, fields: { event: 'first-refusal', code: 'ERR_CHALLENGE', reason: { check: 'signer' } } }
    ])
  })

  it('names the option in the line of a 429, and the issuer of a token that is of another service', async () => {
    const { app, debug } = await loggingApp({ maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn(app, wallet)
    const other = await testApp({ serviceDid: walletOf(9).did })
    const foreign = await logIn(other.app, wallet)
    const ask = (token: string) => request(app).get('/me').set('Authorization', `DIDAuth ${token}`)
    await ask(accessToken).expect(200)
    await ask(accessToken).expect(429)
    await ask(foreign.accessToken).expect(401)
    expect(debug.mock.calls.map(([, message]) => message)).toEqual([
      'Too many requests: the option maxRequestsPerTimeSlot decides',
      'Invalid access token'
    ])
    expect(debug.mock.calls[1]?.[0]).toMatchObject({ reason: { check: 'iss', got: walletOf(9).did } })
  })
})
