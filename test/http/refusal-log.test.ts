import { describe, expect, it, jest } from '@jest/globals'
import type { DidAuthConfig, Logger } from 'express-did-auth'
import { loginChallenge } from '../support/app-client.js'
import { testApp, type TestApp } from '../support/test-app.js'
import { loginText, walletOf } from '../support/wallet.js'
import { throwing } from '../support/refusal.js'

const wallet = walletOf(1)
const { did } = wallet

/** An application whose log at debug and at warn the test reads. */
async function loggingApp(config: Partial<DidAuthConfig> = {}) {
  const [debug, warn] = [jest.fn<NonNullable<Logger['debug']>>(), jest.fn<Logger['warn']>()]
  const logger = { debug, info: () => undefined, warn, error: () => undefined }
  const test = await testApp({ ...config, logger })
  return { ...test, debug, warn, refusals: () => debug.mock.calls.map(([fields]) => fields) }
}

/** The login of another account than the DID's, and the challenge that it signed. */
async function sendForeignLogin({ app, post }: TestApp) {
  const challenge = await loginChallenge(app, did)
  const sig = walletOf(2).personalSign(loginText('service.example', challenge))
  await post('/auth', { did, sig }).expect(401, 'Invalid challenge response')
  return { challenge, sig }
}

describe('the log of refused requests', () => {
  it('has the code of each at debug, with the check that refused it', async () => {
    const { me, post, refresh, refusals } = await loggingApp()
    await me().expect(401)
    await me({ Authorization: 'Bearer secret' }).expect(401)
    await me('secret').expect(401)
    await post('/auth', { did: 'secret' }).expect(401)
    await post('/auth', { did, sig: 'secret' }).expect(401)
    await refresh(7).expect(401)
    const refused = (code: string, check: string, expected: string, got?: string) => ({
      event: 'request-refused',
      code,
      reason: { check, expected, ...(got !== undefined && { got }) }
    })
    expect(refusals()).toEqual([
      { event: 'request-refused', code: 'ERR_ACCESS_TOKEN_MISSING' },
      refused('ERR_ACCESS_TOKEN', 'Authorization', 'DIDAuth <token>'),
      refused('ERR_ACCESS_TOKEN', 'form', 'a compact JWT of at most 4096 bytes'),
      refused('ERR_DID', 'did', 'a DID of at most 128 characters', 'string'),
      refused('ERR_SIGNATURE', 'sig', '0x and 130 hexadecimal digits', 'string'),
      refused('ERR_REFRESH_TOKEN', 'form', 'a refresh token of a session', 'number')
    ])
  })

  it('names the accepted domains and the recovered address of a signature by another account', async () => {
    const test = await loggingApp({ loginDomains: ['other.example'] })
    const { challenge, sig } = await sendForeignLogin(test)
    const [refusal] = test.refusals()
    expect(refusal).toMatchObject({
      code: 'ERR_CHALLENGE',
      reason: {
        check: 'signer',
        acceptedDomains: ['service.example', 'https://service.example', 'other.example'],
        recoveredAddresses: [walletOf(2).address.toLowerCase(), expect.any(String), expect.any(String)]
      }
    })
    const line = JSON.stringify(refusal)
    expect([challenge, sig, did].filter((secret) => line.includes(secret))).toEqual([])
  })

  it('holds no signature, challenge or token of a used challenge and a used refresh token', async () => {
    const { post, signedLogin, refresh, refusals } = await loggingApp({ refreshReuseGraceSeconds: 0 })
    const login = await signedLogin()
    const { refreshToken } = (await post('/auth', login).expect(200)).body
    await post('/auth', login).expect(401)
    await refresh(refreshToken).expect(200)
    await refresh(refreshToken).expect(401)
    const reason = { check: 'session', expected: 'rotate', got: 'replaced' }
    expect(refusals()).toEqual([
      { event: 'request-refused', code: 'ERR_CHALLENGE_USED' },
      { event: 'request-refused', code: 'ERR_REFRESH_TOKEN', reason }
    ])
  })

  it('has the fixed text of a code, where the answer has the words of the application', async () => {
    const authenticationBusinessLogic = throwing(new Error('Jane is not on the list'))
    const { post, signedLogin, debug } = await loggingApp({ authenticationBusinessLogic })
    await post('/auth', await signedLogin()).expect(401, 'Jane is not on the list')
    expect(debug.mock.calls.map(([, message]) => message)).toEqual(['Refused'])
  })

  it('names the option at warn with the first 429 of each budget, once, and at debug with each', async () => {
    const { me, post, logIn, warn, debug } = await loggingApp({ maxRequestsPerTimeSlot: 1 })
    const { accessToken } = await logIn()
    for (const status of [200, 429, 429]) await me(accessToken).expect(status)
    for (let number = 0; number < 12; number += 1) {
      await post('/request-auth', { did: walletOf(3).did }).expect(number < 10 ? 200 : 429)
    }
    const reason = { check: 'quota', option: 'maxRequestsPerTimeSlot' }
    const line = { event: 'first-refusal', code: 'ERR_TOO_MANY_REQUESTS' }
    expect(warn.mock.calls.map(([fields]) => fields)).toEqual([
      { ...line, reason: { ...reason, budget: 'requests', limit: 1 } },
      { ...line, reason: { ...reason, budget: 'namings', limit: 10 } }
    ])
    expect(warn.mock.calls[0]?.[1]).toBe(
      'first refusal by the budget of requests: the option maxRequestsPerTimeSlot decides; later ones are logged at debug'
    )
    const message = 'Too many requests: the option maxRequestsPerTimeSlot decides'
    expect(debug.mock.calls.map(([, text]) => text)).toEqual(Array(4).fill(message))
  })

  it('names trustedOrigins at warn with the first 403, once, and the host that was refused', async () => {
    const config = { useCookies: true, trustedOrigins: ['https://app.example'] }
    const { logInForCookies, logOut, warn, refusals } = await loggingApp(config)
    const Cookie = await logInForCookies()
    const foreign = { Cookie, Origin: 'https://evil.example', 'Sec-Fetch-Site': 'cross-site' }
    for (let number = 0; number < 2; number += 1) await logOut(foreign).expect(403)
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
    const test = await testApp()
    for (let number = 0; number < 2; number += 1) {
      await test.me().expect(401)
      await test.me({ Authorization: 'Bearer secret' }).expect(401)
      await sendForeignLogin(test)
    }
    const message = 'first refusal of this code: pass a logger with debug for the reason'
    const line = (code: string, reason = {}) => ({
      level: 'warn',
      message,
      fields: { event: 'first-refusal', code, ...reason }
    })
    expect(test.log).toEqual([
      line('ERR_ACCESS_TOKEN_MISSING'),
      line('ERR_ACCESS_TOKEN', { reason: { check: 'Authorization' } }),
      line('ERR_CHALLENGE', { reason: { check: 'signer' } })
    ])
  })

  it('names the issuer of a token that is of another service', async () => {
    const { me, refusals } = await loggingApp()
    const foreign = await testApp({ serviceDid: walletOf(9).did })
    await me((await foreign.logIn()).accessToken).expect(401)
    expect(refusals()).toMatchObject([{ reason: { check: 'iss', got: walletOf(9).did } }])
  })
})
