import { describe, expect, it } from '@jest/globals'
import { createHash } from 'node:crypto'
import { DidAuthError } from '../../src/errors.js'
import { logIn, signUp } from '../../src/flows/log-in.js'
import { requestLoginChallenge, requestSignUpChallenge } from '../../src/flows/request-challenge.js'
import { refusal } from '../support/fixtures/refusal.js'
import { client, createFlowParts, signLogin, decodePayload, SERVICE_URL, type FlowParts } from './flow-parts.js'
import { createNumberedWallet, serviceWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const { did } = wallet

const signedLogin = (parts: FlowParts, options?: Parameters<typeof signLogin>[2]) =>
  logIn(parts, { client, did: options?.did ?? did, sig: signLogin(parts, wallet, options) })
const signedSignUp = (parts: FlowParts, options?: Parameters<typeof signLogin>[2]) =>
  signUp(parts, { client, did, sig: signLogin(parts, wallet, options), credentialJwts: [], claims: [] })

describe('logIn', () => {
  it('returns an access token with the specified claims, and a refresh token of id and 32 random bytes', async () => {
    const parts = await createFlowParts()
    const { accessToken, refreshToken } = await signedLogin(parts)
    expect(decodePayload(accessToken)).toEqual({
      iss: serviceWallet.did,
      aud: SERVICE_URL,
      sub: did,
      exp: START_SECONDS + 600,
      nbf: START_SECONDS,
      iat: START_SECONDS,
      jti: expect.stringMatching(/^[A-Za-z0-9_-]{22}$/),
      sid: expect.stringMatching(/^[A-Za-z0-9_-]{24}$/),
      use: 'access'
    })
    const { sid } = decodePayload(accessToken)
    // The user's part of the id: 6 bytes of SHA-256(canonical DID).
    const userTag = createHash('sha256').update(did).digest().subarray(0, 6).toString('base64url')
    expect(String(sid).slice(0, 8)).toBe(userTag)
    expect(refreshToken).toMatch(/^[A-Za-z0-9_-]{24}[.][A-Za-z0-9_-]{43}$/)
    expect(refreshToken.slice(0, 24)).toBe(sid)
  })

  it('stores only the SHA-256 of the refresh token, with the service and the random session id', async () => {
    const parts = await createFlowParts()
    const stored: unknown[] = []
    parts.store.createSession = async (session) => {
      stored.push(session)
      return 0
    }
    const { accessToken, refreshToken } = await signedLogin(parts)
    expect(stored).toEqual([
      {
        service: SERVICE_URL,
        sessionId: decodePayload(accessToken).sid,
        did,
        refreshTokenHash: createHash('sha256').update(refreshToken).digest('base64url'),
        tokenClaims: undefined,
        nowSeconds: START_SECONDS,
        expiresAtSeconds: START_SECONDS + 604_800
      }
    ])
  })

  it('generates new ids and tokens each time', async () => {
    const parts = await createFlowParts({ replayProtection: 'window' })
    const tokens = await Promise.all(Array.from({ length: 20 }, () => signedLogin(parts)))
    const drawn = tokens.flatMap(({ accessToken, refreshToken }) => {
      const { jti, sid } = decodePayload(accessToken)
      return [refreshToken, jti, sid]
    })
    expect(new Set(drawn).size).toBe(60)
  })

  it('proves, consumes the challenge, calls business logic, signs and stores, in this order', async () => {
    const parts = await createFlowParts({
      authenticationBusinessLogic: () => {
        parts.steps.push('businessLogic')
      }
    })
    await signedLogin(parts)
    expect(parts.steps).toEqual([
      'countChallengeUses',
      'yield',
      'recover',
      'consumeChallenge',
      'businessLogic',
      'sign',
      'createSession'
    ])
  })

  it('runs recoveries that only explain a refusal in a separate turn, after waiting logins', async () => {
    const parts = await createFlowParts()
    const sig = signLogin(parts, wallet)
    for (let useCount = 0; useCount < 3; useCount += 1) {
      await logIn(parts, { client, did, sig: signLogin(parts, wallet, { useCount }) })
    }
    parts.steps.length = 0
    await expect(logIn(parts, { client, did, sig })).rejects.toEqual(refusal('ERR_CHALLENGE_USED'))
    // Order with two domains: the current challenge, then the third, the ended window, the second, and the matching
    // first.
    const recoveries = (count: number): string[] => Array<string>(count).fill('recover')
    expect(parts.steps).toEqual([
      'countChallengeUses',
      'yield',
      ...recoveries(2),
      'yieldInBackground',
      // Uses in the previous window.
      'countChallengeUses',
      ...recoveries(7)
    ])
  })

  it('consumes nothing and calls no business logic for an invalid signature', async () => {
    const parts = await createFlowParts({
      authenticationBusinessLogic: () => {
        parts.steps.push('businessLogic')
      }
    })
    const sig = signLogin(parts, createNumberedWallet(2), { did })
    await expect(logIn(parts, { client, did, sig })).rejects.toEqual(refusal('ERR_CHALLENGE'))
    expect(new Set(parts.steps)).toEqual(new Set(['countChallengeUses', 'yield', 'recover', 'yieldInBackground']))
  })

  it('calls neither curve nor store for a malformed signature or an unsupported DID', async () => {
    const parts = await createFlowParts()
    await expect(logIn(parts, { client, did, sig: '0x12' })).rejects.toEqual(refusal('ERR_SIGNATURE'))
    const foreign = 'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK'
    const login = logIn(parts, { client, did: foreign, sig: signLogin(parts, wallet) })
    await expect(login).rejects.toEqual(refusal('ERR_DID_UNSUPPORTED'))
    expect(parts.steps).toEqual([])
  })

  it('stores no session if signing fails', async () => {
    const parts = await createFlowParts()
    parts.serviceKey.issueJwt = () => Promise.reject(new DidAuthError('ERR_SIGNER'))
    await expect(signedLogin(parts)).rejects.toEqual(refusal('ERR_SIGNER'))
    expect(parts.steps).not.toContain('createSession')
    expect(await parts.store.listSessions(SERVICE_URL, did, START_SECONDS)).toEqual([])
  })

  it.each(['countChallengeUses', 'consumeChallenge', 'createSession'] as const)(
    'returns no tokens if %s fails',
    async (verb) => {
      const parts = await createFlowParts()
      Object.assign(parts.store, { [verb]: () => Promise.reject(new DidAuthError('ERR_STORE')) })
      await expect(signedLogin(parts)).rejects.toEqual(refusal('ERR_STORE'))
      expect(parts.steps).not.toContain('createSession')
    }
  )

  it('refuses before any recovery if too many logins wait for their turn', async () => {
    const parts = await createFlowParts()
    parts.scheduler.yield = () => Promise.reject(new DidAuthError('ERR_BUSY'))
    await expect(signedLogin(parts)).rejects.toEqual(refusal('ERR_BUSY'))
    expect(parts.steps).not.toContain('recover')
  })

  it.each(['service.example', 'https://service.example', 'app.example'])('accepts a message for %s', async (domain) => {
    const parts = await createFlowParts({ loginDomains: ['app.example'] })
    await expect(signedLogin(parts, { domain })).resolves.toHaveProperty('accessToken')
  })

  it.each(['attacker.example', 'https://service.example/', 'Service.example', ''])(
    'refuses a message for %j',
    async (domain) => {
      const parts = await createFlowParts()
      await expect(signedLogin(parts, { domain })).rejects.toEqual(refusal('ERR_CHALLENGE'))
    }
  )

  // A session for a DID of an unknown network would be a second account of the same person.
  it('refuses a DID of another network at challenge, login and sign-up, before it recovers a key', async () => {
    const parts = await createFlowParts({ networks: ['rsk', ''] })
    const foreign = { did: `did:ethr:sepolia:${wallet.address}` }
    const unsupported = refusal('ERR_DID_UNSUPPORTED')
    await expect(requestLoginChallenge(parts, foreign.did)).rejects.toEqual(unsupported)
    await expect(requestSignUpChallenge(parts, foreign.did, { mountPath: '', client })).rejects.toEqual(unsupported)
    await expect(signedLogin(parts, foreign)).rejects.toEqual(unsupported)
    const sig = signLogin(parts, wallet, foreign)
    const body = { client, ...foreign, sig, credentialJwts: [], claims: [] }
    await expect(signUp(parts, body)).rejects.toEqual(unsupported)
    expect(parts.steps).toEqual([])
    await expect(signedLogin(parts, { did: `did:ethr:${wallet.address}` })).resolves.toHaveProperty('accessToken')
  })

  it('refuses a message with a third line, which belongs to a sign-up', async () => {
    const parts = await createFlowParts()
    await expect(signedLogin(parts, { thirdLine: '\n' })).rejects.toEqual(refusal('ERR_CHALLENGE'))
  })

  it('keeps the DID as received in the token, and accepts any letter case of its address', async () => {
    const parts = await createFlowParts()
    const spelled = `did:ethr:rsk:${wallet.address}`
    const { accessToken } = await signedLogin(parts, { did: spelled })
    expect(decodePayload(accessToken).sub).toBe(spelled)
  })

  it('accepts EIP-155 values of v for the chain that the DID names, here 5', async () => {
    const parts = await createFlowParts()
    const spelled = `did:ethr:0x5:${wallet.address}`
    const sig = signLogin(parts, wallet, { did: spelled })
    const v = Number.parseInt(sig.slice(130), 16) - 27 + 35 + 2 * 5
    const eip155 = sig.slice(0, 130) + v.toString(16)
    await expect(logIn(parts, { client, did: spelled, sig: eip155 })).resolves.toHaveProperty('accessToken')
    await expect(logIn(parts, { client, did, sig: eip155 })).rejects.toEqual(refusal('ERR_SIGNATURE'))
  })
})

describe('the window of a challenge', () => {
  it('accepts a signature in its last second', async () => {
    const parts = await createFlowParts()
    parts.clock.seconds = START_SECONDS + 299
    await expect(signedLogin(parts)).resolves.toHaveProperty('accessToken')
  })

  it.each([300, 599])('returns expired %d s after its start', async (seconds) => {
    const parts = await createFlowParts()
    parts.clock.seconds = START_SECONDS + seconds
    await expect(signedLogin(parts)).rejects.toMatchObject({
      code: 'ERR_CHALLENGE_EXPIRED',
      message: 'Invalid challenge response: expired'
    })
  })

  it.each([1, 2])('returns expired for the challenge after %d logins in its window', async (useCount) => {
    const parts = await createFlowParts()
    for (let count = 0; count < useCount; count += 1) {
      await logIn(parts, { client, did, sig: signLogin(parts, wallet, { useCount: count }) })
    }
    const sig = signLogin(parts, wallet, { useCount })
    parts.clock.seconds = START_SECONDS + 300
    await expect(logIn(parts, { client, did, sig })).rejects.toEqual(refusal('ERR_CHALLENGE_EXPIRED'))
  })

  // Cause: the store returned `taken` for a window that was over, and the client was told of a use that never happened.
  it('returns expired, not used, if it ends between proof and consumption', async () => {
    const parts = await createFlowParts()
    parts.scheduler.yield = async () => {
      parts.clock.seconds = START_SECONDS + 300
    }
    await expect(signedLogin(parts)).rejects.toEqual(refusal('ERR_CHALLENGE_EXPIRED'))
    expect(parts.steps).not.toContain('createSession')
  })
})

describe('the single use of a challenge', () => {
  it('opens one session per signature, and returns used for the second attempt', async () => {
    const parts = await createFlowParts()
    await signedLogin(parts)
    await expect(signedLogin(parts)).rejects.toEqual(refusal('ERR_CHALLENGE_USED'))
    await expect(signedLogin(parts, { useCount: 1 })).resolves.toHaveProperty('accessToken')
  })

  it('counts per user, however the address is spelled', async () => {
    const parts = await createFlowParts()
    await signedLogin(parts)
    const spelled = `did:ethr:rsk:${wallet.address}`
    await expect(signedLogin(parts, { did: spelled })).rejects.toEqual(refusal('ERR_CHALLENGE_USED'))
    await expect(signedLogin(parts, { did: spelled, useCount: 1 })).resolves.toHaveProperty('accessToken')
  })

  it('passes window, flow, end of the window and the DID in lower case to the store', async () => {
    const parts = await createFlowParts()
    const uses: unknown[] = []
    parts.store.consumeChallenge = async (use) => {
      uses.push(use)
      return 'consumed'
    }
    parts.clock.seconds = START_SECONDS + 17
    await signedLogin(parts, { did: `did:ethr:rsk:${wallet.address}` })
    await signedSignUp(parts, { thirdLine: '\n' })
    const use = { service: SERVICE_URL, did, window: 6_000_000, useCount: 0 }
    const times = { nowSeconds: START_SECONDS + 17, expiresAtSeconds: START_SECONDS + 300 }
    expect(uses).toEqual([
      { ...use, ...times, flow: 'logIn', consumesBoth: true },
      { ...use, ...times, flow: 'signUp', consumesBoth: false }
    ])
  })

  it('keeps the first login challenge valid after a sign-up with a third line', async () => {
    const parts = await createFlowParts()
    await signedSignUp(parts, { thirdLine: '\nMy credentials are: ' })
    await expect(signedSignUp(parts, { thirdLine: '\nMy credentials are: ' })).rejects.toEqual(
      refusal('ERR_CHALLENGE_USED')
    )
    await expect(signedLogin(parts)).resolves.toHaveProperty('accessToken')
  })

  it('consumes the challenge even if business logic then refuses', async () => {
    const parts = await createFlowParts({ authenticationBusinessLogic: () => false })
    await expect(signedLogin(parts)).rejects.toEqual(refusal('ERR_BUSINESS_LOGIC'))
    await expect(signedLogin(parts)).rejects.toEqual(refusal('ERR_CHALLENGE_USED'))
  })

  it('returns busy until 60 s after the window, in whole seconds, if the store is full', async () => {
    const parts = await createFlowParts({ challengeExpirationTimeInSeconds: 300.5 })
    // 1_800_000_000 = 5_990_016 * 300.5 + 192: 108.5 s are left, plus 60 s.
    parts.store.consumeChallenge = async () => 'full'
    await expect(signedLogin(parts, { window: 5_990_016 })).rejects.toMatchObject({
      code: 'ERR_BUSY',
      retryAfterSeconds: 169
    })
  })

  it("is off with replayProtection 'window': any number of sessions per window, and no state", async () => {
    const parts = await createFlowParts({ replayProtection: 'window' })
    await signedLogin(parts)
    await expect(signedLogin(parts)).resolves.toHaveProperty('accessToken')
    expect(parts.steps).not.toContain('countChallengeUses')
    expect(parts.steps).not.toContain('consumeChallenge')
    parts.clock.seconds = START_SECONDS + 300
    await expect(signedLogin(parts)).rejects.toEqual(refusal('ERR_CHALLENGE_EXPIRED'))
  })
})

describe('authenticationBusinessLogic', () => {
  it('adds claims, which are stored in the session', async () => {
    const parts = await createFlowParts({
      authenticationBusinessLogic: async () => ({ tokenClaims: { role: 'admin' } })
    })
    const { accessToken } = await signedLogin(parts)
    expect(decodePayload(accessToken).role).toBe('admin')
    const [session] = await parts.store.listSessions(SERVICE_URL, did, START_SECONDS)
    expect(session?.tokenClaims).toEqual({ role: 'admin' })
  })

  it('receives the DID as received, its canonical form and its address, and nothing else', async () => {
    const asked: unknown[] = []
    const parts = await createFlowParts({ authenticationBusinessLogic: (...args) => void asked.push(args) })
    const spelled = `did:ethr:rsk:${wallet.address}`
    await signedLogin(parts, { did: spelled })
    expect(asked).toEqual([[spelled, { canonicalDid: did, address: wallet.address.toLowerCase() }]])
  })

  it('sets the times of tokens after it finishes, not when it is called', async () => {
    const parts = await createFlowParts({
      authenticationBusinessLogic: () => {
        parts.clock.seconds = START_SECONDS + 7
      }
    })
    const { accessToken } = await signedLogin(parts)
    expect(decodePayload(accessToken)).toMatchObject({ iat: START_SECONDS + 7, exp: START_SECONDS + 607 })
  })
})
