import { describe, expect, it } from '@jest/globals'
import { acceptedLoginDomains, verifyLoginProof } from 'express-did-auth/protocol'
import { loadCurve, type SecurityEvent } from 'express-did-auth'
import request from 'supertest'
import { refusal } from '../support/fixtures/refusal.js'
import { createAccount, createSignedSiwe, createSiweText } from '../support/fixtures/siwe.js'
import { serviceUrl, testApp } from '../support/servers/test-app.js'
import { createLoginText as textOf, createNumberedWallet } from '../support/fixtures/fixtures.js'

const curve = await loadCurve()
const domains = acceptedLoginDomains(serviceUrl, [])
const { did, address, personalSign } = createNumberedWallet(1)
const account = createAccount(1)
const challenge = 'ab'.repeat(32)
const loginText = (of: string) => textOf('service.example', of)
const signed = (message: string) => ({ message, signature: personalSign(message), did, domains })
const siwe = (fields: Parameters<typeof createSiweText>[2] = {}) =>
  signed(createSiweText(account, 'abcdef0123456789', fields))

describe('verifyLoginProof', () => {
  it('returns the signer of a login of this protocol, in either dialect, and of a sign-up', () => {
    const login = loginText(challenge)
    const proved = { address: address.toLowerCase(), domain: 'service.example', challenge }
    const credentials = `\nMy credentials are: eyJ.eyJ.sig-1,eyJ.eyJ.sig-2`
    for (const message of [login, login.replace('Login to', 'URL:'), `${login}\n`, login + credentials]) {
      expect(verifyLoginProof(curve, signed(message))).toEqual(proved)
    }
  })

  it("returns the signer of an EIP-4361 message, and its time by the user's clock", () => {
    const proof = siwe({ statement: 'Come in.' })
    expect(verifyLoginProof(curve, proof)).toEqual({
      address: address.toLowerCase(),
      domain: 'service.example',
      challenge: 'abcdef0123456789',
      issuedAt: '2027-01-15T08:00:00.000Z'
    })
  })

  it('accepts another address that the document of the DID listed at that time', () => {
    const delegate = createNumberedWallet(2)
    const proof = { ...signed(loginText(challenge)), signature: delegate.personalSign(loginText(challenge)) }
    expect(() => verifyLoginProof(curve, proof)).toThrow(refusal('ERR_CHALLENGE'))
    const controllers = [address, delegate.address].map((one) => one.toLowerCase())
    expect(verifyLoginProof(curve, { ...proof, controllers }).address).toBe(controllers[1])
  })

  it.each([
    ['a message of another service', signed(textOf('other.example', challenge)), 'ERR_MESSAGE_DOMAIN'],
    ['one of another site', siwe({ domain: 'other.example' }), 'ERR_MESSAGE_DOMAIN'],
    ['another text', signed('I owe you 100 RBTC'), 'ERR_MESSAGE'],
    ['text before a login', signed(`Hello\n${loginText(challenge)}`), 'ERR_MESSAGE'],
    ['text behind a login', signed(`${loginText(challenge)}\nI agree to more`), 'ERR_MESSAGE'],
    ['a short challenge', signed(loginText('abc')), 'ERR_MESSAGE'],
    ['an approval', siwe({ statement: 'Approve POST /transfer: Send all' }), 'ERR_MESSAGE'],
    [
      'another key',
      { ...signed(loginText(challenge)), signature: createNumberedWallet(2).personalSign(loginText(challenge)) },
      'ERR_CHALLENGE'
    ],
    [
      'the login of another user',
      { ...signed(loginText(challenge)), did: createNumberedWallet(2).did },
      'ERR_CHALLENGE'
    ],
    [
      'another challenge than the signed one',
      { ...signed(loginText(challenge)), message: loginText('cd'.repeat(32)) },
      'ERR_CHALLENGE'
    ],
    ['the address of another account', signed(createSiweText(createAccount(2), 'abcdef0123456789')), 'ERR_CHALLENGE'],
    ['the signature of a contract', { ...siwe(), signature: `0x${'ab'.repeat(130)}` }, 'ERR_SIGNATURE'],
    ['a DID of another method', { ...signed(loginText(challenge)), did: 'did:web:example.org' }, 'ERR_DID_UNSUPPORTED']
  ] as const)('refuses %s', (_what, login, code) => expect(() => verifyLoginProof(curve, login)).toThrow(refusal(code)))
})

describe('the option loginProofs', () => {
  /** Creates an application whose listener records the events, and then throws; returns its log as well. */
  async function auditedApp(loginProofs?: boolean) {
    const events: SecurityEvent[] = []
    const lines: unknown[] = []
    const write = (...line: unknown[]) => void lines.push(line)
    const logger = { debug: write, info: write, warn: write, error: write }
    const onSecurityEvent = (event: SecurityEvent) => {
      events.push(event)
      throw new Error(JSON.stringify(event))
    }
    const test = await testApp({ siwe: true, logger, onSecurityEvent, ...(loginProofs && { loginProofs }) })
    return { ...test, events, written: () => JSON.stringify(lines) }
  }

  it('adds the signed text to events of login and sign-up, where it verifies, and to no log', async () => {
    const { app, post, createSignedLogin, events, written } = await auditedApp(true)
    const login = await createSignedLogin()
    await post('/auth', login).expect(200)
    await post('/signup', await createSignedLogin(createNumberedWallet(2))).expect(200)
    const bySiwe = await createSignedSiwe(app, account)
    await request(app).post('/siwe/verify').send(bySiwe).expect(200)
    expect(events.map(({ type }) => type)).toEqual(['login', 'signup', 'login'])
    expect([events[0]!.proof!.signature, events[2]!.proof]).toEqual([login.sig, bySiwe])
    for (const { proof, did: whose = '' } of events) {
      expect(verifyLoginProof(curve, { ...proof!, did: whose, domains }).address).toBe(whose.slice(-42))
      expect(written()).not.toContain(proof!.signature.slice(2, 60))
      expect(written()).not.toContain('Verification code')
    }
    expect(written()).toContain('security-listener-failed')
  })

  it('is off by default', async () => {
    const { logIn, events } = await auditedApp()
    await logIn()
    expect(events[0]).not.toHaveProperty('proof')
  })

  it('is refused with a setting that keeps a signature valid', async () => {
    const setup = testApp({ loginProofs: true, replayProtection: 'window' })
    await expect(setup).rejects.toThrow('loginProofs: received true with replayProtection "window"')
  })
})
