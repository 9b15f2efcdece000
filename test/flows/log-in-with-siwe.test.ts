import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import type { DidAuthConfig } from '../../src/config/options.js'
import { DidAuthError } from '../../src/errors.js'
import { logIn } from '../../src/flows/log-in.js'
import { logInWithSiwe } from '../../src/flows/log-in-with-siwe.js'
import { readOwnSession } from '../../src/flows/manage-sessions.js'
import { refreshTokens } from '../../src/flows/tokens.js'
import { issueNonce } from '../../src/flows/nonces.js'
import { catchCode, refusal } from '../support/fixtures/refusal.js'
import { createAccount, createSiweText } from '../support/fixtures/siwe.js'
import { createChallenge, client, createFlowParts, decodePayload, createSiweParts } from './flow-parts.js'
import { createLoginText, createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const account = createAccount(1)
const address = account.address.toLowerCase()
const did = `did:ethr:rsk:${address}`

/** Creates parts of a service with EIP-4361, and a login whose message a test may change. */
async function siweLogin(config: Partial<DidAuthConfig> = {}) {
  const { parts, siwe } = await createSiweParts(config)
  const nonce = (): string => issueNonce(parts, siwe).nonce
  const send = (message: string, signature: unknown) => logInWithSiwe(parts, siwe, { message, signature, client })
  const login = async (fields: Parameters<typeof createSiweText>[2] = {}, change = (text: string): string => text) => {
    const message = change(createSiweText(account, nonce(), fields))
    return send(message, await account.signMessage({ message }))
  }
  return { parts, siwe, nonce, send, login }
}

const busy = () => Promise.reject(new DidAuthError('ERR_BUSY'))

describe('logInWithSiwe', () => {
  it("opens a session of the DID on the configured network, independent of the message's chain", async () => {
    const { login } = await siweLogin({ siwe: { network: '' } })
    const { user, tokens } = await login({ chainId: 137 })
    expect(user).toEqual({ did: `did:ethr:${address}`, address, chainId: 137 })
    expect(decodePayload(tokens.accessToken)).toMatchObject({
      sub: `did:ethr:${address}`,
      acct: `eip155:137:${address}`,
      amr: ['eoa']
    })
  })

  it('checks the message, recovers, charges, consumes, calls business logic, signs and stores, in order', async () => {
    const { parts, login } = await siweLogin({
      authenticationBusinessLogic: () => {
        parts.steps.push('businessLogic')
      }
    })
    await login()
    expect(parts.steps).toEqual(['yield', 'recover', 'consumeChallenge', 'businessLogic', 'sign', 'createSession'])
    expect(parts.charges).toEqual([['logins 192.0.2.1', 1_000]])
    expect(parts.events).toEqual([{ type: 'login', did, sessionId: expect.any(String) }])
  })

  it('refuses the address of another account, consumes nothing, and counts a refused proof', async () => {
    const { parts, login } = await siweLogin()
    await expect(login({ address: createAccount(2).address })).rejects.toEqual(refusal('ERR_CHALLENGE'))
    expect(parts.steps).not.toContain('consumeChallenge')
    expect(parts.charges[0]).toEqual(['failedProofs 192.0.2.1', 2_000])
    expect(parts.events).toEqual([expect.objectContaining({ type: 'proof-refused', code: 'ERR_CHALLENGE' })])
  })

  it('reports the first of two faults in rule order, and recovers nothing for it', async () => {
    const { parts, send, nonce } = await siweLogin()
    const over = { expirationTime: new Date(0) }
    const texts = [
      `${createSiweText(account, 'abcdefgh', { domain: 'evil.example', ...over })}\n`,
      createSiweText(account, 'abcdefgh', { domain: 'evil.example', ...over }),
      createSiweText(account, 'abcdefgh', { uri: 'https://evil.example', ...over }),
      createSiweText(account, 'abcdefgh', over),
      createSiweText(account, nonce(), over),
      createSiweText(account, nonce(), { notBefore: new Date((START_SECONDS + 61) * 1000) }),
      createSiweText(account, nonce())
    ]
    const codes = await Promise.all(texts.map((text) => catchCode(send(text, '0x'))))
    expect(codes).toEqual([
      ...['ERR_MESSAGE', 'ERR_MESSAGE_DOMAIN', 'ERR_MESSAGE_DOMAIN', 'ERR_CHALLENGE'],
      ...['ERR_MESSAGE', 'ERR_MESSAGE', 'ERR_SIGNATURE']
    ])
    expect(parts.steps).toEqual([])
  })

  it.each([
    ['its turn', 2, { scheduler: { yield: busy } }, 'ERR_BUSY', []],
    [
      'the budget of contracts',
      2,
      { quotas: { charge: busy, assertLeft: (): void => undefined } },
      'ERR_BUSY',
      ['recover']
    ],
    [
      'the budget of logins',
      1,
      { quotas: { charge: busy, assertLeft: (): void => undefined } },
      'ERR_BUSY',
      ['recover']
    ],
    ['its contract', 2, {}, 'ERR_CONTRACT_SIGNATURE', ['recover', 'contract']]
  ] as const)('waits for %s, and stops if that refuses', async (_name, signer, faults, code, done) => {
    const { parts, siwe, nonce } = await siweLogin()
    const verify = async () => {
      parts.steps.push('contract')
      throw new DidAuthError('ERR_CONTRACT_SIGNATURE')
    }
    const faulty = { ...parts, contractWallets: { accepts: () => true, verify }, ...faults }
    const message = createSiweText(account, nonce())
    const signature = await createAccount(signer).signMessage({ message })
    expect(await catchCode(logInWithSiwe(faulty, siwe, { message, signature, client }))).toBe(code)
    expect(parts.steps.filter((step) => step !== 'yield')).toEqual(done)
  })

  it('keeps the nonce of an invalid signature valid', async () => {
    const { send, nonce } = await siweLogin()
    const message = createSiweText(account, nonce())
    await expect(send(message, await createAccount(2).signMessage({ message }))).rejects.toEqual(
      refusal('ERR_CHALLENGE')
    )
    await expect(send(message, await account.signMessage({ message }))).resolves.toBeDefined()
    await expect(send(message, await account.signMessage({ message }))).rejects.toEqual(refusal('ERR_CHALLENGE_USED'))
  })

  it('refuses a signature over a message with any other byte', async () => {
    const { parts, send, nonce } = await siweLogin()
    const message = createSiweText(account, nonce(), { statement: 'Sign in', requestId: 'r7', resources: ['urn:x'] })
    const signature = await account.signMessage({ message })
    await fc.assert(
      fc.asyncProperty(fc.nat(message.length - 1), fc.integer({ min: 9, max: 126 }), async (at, code) => {
        const changed = message.slice(0, at) + String.fromCharCode(code) + message.slice(at + 1)
        if (changed !== message) await expect(send(changed, signature)).rejects.toBeInstanceOf(DidAuthError)
      }),
      { numRuns: 300 }
    )
    expect(parts.steps).not.toContain('consumeChallenge')
    await expect(send(message, signature)).resolves.toBeDefined()
  })

  it('passes the fields of the message to business logic, whose refusal prevents a session', async () => {
    const asked: unknown[] = []
    const { login, parts } = await siweLogin({
      authenticationBusinessLogic: (...args) => {
        asked.push(args)
        if (asked.length > 1) throw new Error('Not invited')
        return { tokenClaims: { role: 'user', acct: 'eip155:1:0x0', amr: ['mfa'], ctl: 'x' } }
      }
    })
    const fields = { statement: 'Hello', resources: ['https://a.example/', 'urn:x'], requestId: 'order-7', chainId: 31 }
    const { tokens } = await login(fields)
    expect(asked[0]).toEqual([did, { canonicalDid: did, address, siwe: fields }])
    const claims = decodePayload(tokens.accessToken)
    expect(claims).toMatchObject({ role: 'user', acct: `eip155:31:${address}`, amr: ['eoa'] })
    expect(claims).not.toHaveProperty('ctl')
    await expect(login()).rejects.toThrow('Not invited')
    expect(parts.steps.filter((step) => step === 'createSession')).toHaveLength(1)
  })

  it('keeps account and method after a refresh, even if business logic sets other claims', async () => {
    for (const refreshBusinessLogic of [undefined, () => ({ tokenClaims: { role: 'admin', amr: ['mfa'] } })]) {
      const { parts, login } = await siweLogin({ refreshBusinessLogic })
      const { tokens } = await login()
      const next = await refreshTokens(parts, { refreshToken: tokens.refreshToken, idempotencyKey: undefined, client })
      expect(decodePayload(next.accessToken)).toMatchObject({
        acct: `eip155:30:${address}`,
        amr: ['eoa'],
        ...(refreshBusinessLogic && { role: 'admin' })
      })
    }
  })

  it('shows address and chain in the session, for either token', async () => {
    const { parts, login } = await siweLogin()
    const { tokens } = await login()
    const none = { accessToken: () => undefined, refreshToken: () => undefined }
    for (const shown of [
      { ...none, accessToken: () => tokens.accessToken },
      { ...none, refreshToken: () => tokens.refreshToken }
    ]) {
      expect(await readOwnSession(parts, shown)).toMatchObject({ did, address, chainId: 30 })
    }
  })
})

describe('a message of this protocol and an EIP-4361 message', () =>
  it('are never valid in place of each other', async () => {
    const { parts, send, nonce } = await siweLogin({ loginDialects: ['login', 'url'] })
    const [wallet, challenge] = [createNumberedWallet(1), createChallenge(await createFlowParts(), did)]
    const plain = createLoginText('service.example', challenge)
    const texts = [
      plain,
      createSiweText(account, nonce()),
      createSiweText(account, challenge),
      createSiweText(account, nonce(), { statement: plain.replace('\n', ' ') })
    ]
    for (const message of texts) {
      const signature = wallet.personalSign(message)
      if (message === plain) await expect(send(message, signature)).rejects.toEqual(refusal('ERR_MESSAGE'))
      else await expect(logIn(parts, { did, sig: signature, client })).rejects.toEqual(refusal('ERR_CHALLENGE'))
    }
    await expect(send(texts[2]!, wallet.personalSign(texts[2]!))).rejects.toEqual(refusal('ERR_CHALLENGE'))
    await expect(logIn(parts, { did, sig: wallet.personalSign(plain), client })).resolves.toBeDefined()
  }))
