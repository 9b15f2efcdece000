import { describe, expect, it } from '@jest/globals'
import { DidAuthError } from '../../src/errors.js'
import { logIn, signUp } from '../../src/flows/log-in.js'
import type { VerifiedCredential } from '../../src/protocol/credential.js'
import type { SelectiveDisclosureResponse } from '../../src/protocol/selective-disclosure.js'
import { refusal } from '../support/fixtures/refusal.js'
import { client, createFlowParts, signLogin, decodePayload, type FlowParts } from './flow-parts.js'
import { createNumberedWallet, serviceWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const { did } = wallet
const credential: VerifiedCredential = {
  jwt: 'a.b.c',
  issuer: 'did:ethr:rsk:0x2b5ad5c4795c026514f8317c7a215e218dccd6cf',
  subject: did,
  type: ['VerifiableCredential', 'Email'],
  credentialSubject: { email: 'a@b.example' },
  expiresAtSeconds: undefined,
  vc: {}
}

interface Given {
  credentialJwts?: string[]
  claims?: { claimType: string; claimValue: string }[]
  thirdLine?: string
}

const signedSignUp = (parts: FlowParts, { credentialJwts = [], claims = [], thirdLine = '' }: Given = {}) =>
  signUp(parts, { client, did, sig: signLogin(parts, wallet, { thirdLine }), credentialJwts, claims })

describe('signUp', () => {
  it('proves, verifies credentials, consumes the challenge, calls logic, signs, stores, in order', async () => {
    const parts = await createFlowParts({
      signupBusinessLogic: () => {
        parts.steps.push('businessLogic')
      }
    })
    await signedSignUp(parts)
    expect(parts.steps).toEqual([
      'countChallengeUses',
      'yield',
      'recover',
      'verifyCredentials',
      'consumeChallenge',
      'businessLogic',
      'sign',
      'createSession'
    ])
  })

  it.each(['', '\n', '\nMy credentials are:', '\nMy credentials are: '])(
    'accepts the third line %j if there are no credentials',
    async (thirdLine) => {
      const parts = await createFlowParts()
      const { accessToken } = await signedSignUp(parts, { thirdLine })
      expect(decodePayload(accessToken).sub).toBe(did)
    }
  )

  it('checks the first form for every domain before the second form', async () => {
    const parts = await createFlowParts({ serviceUrl: 'https://service.example:8443' })
    const sig = signLogin(parts, wallet, { domain: 'https://service.example:8443' })
    await signUp(parts, { client, did, sig, credentialJwts: [], claims: [] })
    expect(parts.steps.filter((step) => step === 'recover')).toHaveLength(3)
  })

  it('refuses the signature of another wallet, and consumes nothing', async () => {
    const parts = await createFlowParts()
    const sig = signLogin(parts, createNumberedWallet(2), { did })
    const forged = signUp(parts, { client, did, sig, credentialJwts: [], claims: [] })
    await expect(forged).rejects.toEqual(refusal('ERR_CHALLENGE'))
    expect(parts.steps).not.toContain('consumeChallenge')
  })

  it('accepts the signed credentials, joined by commas', async () => {
    const parts = await createFlowParts()
    const given = { credentialJwts: ['a.b.c', 'd.e.f'], thirdLine: '\nMy credentials are: a.b.c,d.e.f' }
    await expect(signedSignUp(parts, given)).resolves.toHaveProperty('accessToken')
  })

  it.each([
    ['others', ['a.b.c'], '\nMy credentials are: d.e.f'],
    ['none of them', ['a.b.c'], '']
  ])('refuses credentials if the signature covers %s', async (_name, credentialJwts, thirdLine) => {
    const parts = await createFlowParts()
    await expect(signedSignUp(parts, { credentialJwts, thirdLine })).rejects.toEqual(refusal('ERR_CHALLENGE'))
    expect(parts.steps).not.toContain('verifyCredentials')
  })

  it.each(['ERR_CREDENTIAL', 'ERR_RESOLVER'] as const)(
    'consumes nothing, calls no business logic and counts a refused proof if credentials give %s',
    async (code) => {
      const parts = await createFlowParts({
        signupBusinessLogic: () => {
          parts.steps.push('businessLogic')
        }
      })
      parts.credentials = new DidAuthError(code)
      await expect(signedSignUp(parts)).rejects.toEqual(refusal(code))
      expect(parts.steps.at(-1)).toBe('verifyCredentials')
      expect(parts.charges.map(([name]) => name)).toEqual(['failedProofs 192.0.2.1', `didRequests ${did} 192.0.2.1`])
      parts.credentials = []
      await expect(signedSignUp(parts)).resolves.toHaveProperty('accessToken')
    }
  )

  it('verifies the received credentials for the user, the client and the current time', async () => {
    const parts = await createFlowParts({ signupBusinessLogic: () => undefined })
    const asked: unknown[] = []
    parts.credentialVerifier.verify = async (...args) => {
      asked.push(...args)
      return []
    }
    await signedSignUp(parts, { credentialJwts: ['a.b.c'], thirdLine: '\nMy credentials are: a.b.c' })
    const chargeKey = expect.any(Function)
    expect(asked).toEqual([['a.b.c'], { did, client: { ...client, chargeKey } }, START_SECONDS, parts.deadline])
  })

  it('skips verification if nothing is requested and no business logic reads credentials', async () => {
    const parts = await createFlowParts()
    const asked: unknown[] = []
    parts.credentialVerifier.verify = async (jwts) => {
      asked.push(jwts)
      return []
    }
    await signedSignUp(parts, { credentialJwts: ['a.b.c'], thirdLine: '\nMy credentials are: a.b.c' })
    expect(asked).toEqual([[]])
  })
})

describe('signupBusinessLogic', () => {
  const required = {
    requiredCredentials: ['Email', 'Phone'],
    requiredClaims: [
      { claimType: 'name', claimValue: '', essential: true },
      { claimType: 'nickname', claimValue: '' }
    ]
  }

  it('receives the user, the service, claims, credentials and what is missing', async () => {
    const received: SelectiveDisclosureResponse[] = []
    const parts = await createFlowParts({ ...required, signupBusinessLogic: (response) => received.push(response) })
    parts.credentials = [credential]
    await signedSignUp(parts, {
      claims: [{ claimType: 'nickname', claimValue: 'Al' }],
      credentialJwts: ['a.b.c'],
      thirdLine: '\nMy credentials are: a.b.c'
    })
    expect(received).toEqual([
      {
        issuer: did,
        subject: serviceWallet.did,
        claims: [{ claimType: 'nickname', claimValue: 'Al' }],
        credentials: [credential],
        missing: { credentials: ['Phone'], claims: ['name'] }
      }
    ])
  })

  it('decides about missing items: unless it refuses, the user is signed up', async () => {
    const parts = await createFlowParts({ ...required, signupBusinessLogic: () => undefined })
    await expect(signedSignUp(parts)).resolves.toHaveProperty('accessToken')
  })

  it.each([
    ['a credential', { requiredCredentials: ['Email'] }],
    ['an essential claim', { requiredClaims: [{ claimType: 'name', claimValue: '', essential: true }] }]
  ])('is not needed to refuse if %s is missing, which consumes nothing', async (_name, config) => {
    const parts = await createFlowParts(config)
    await expect(signedSignUp(parts)).rejects.toEqual(refusal('ERR_DISCLOSURE_MISSING'))
    expect(parts.steps).not.toContain('consumeChallenge')
  })

  it('is not needed if nothing is missing, or only claims that are not essential', async () => {
    const parts = await createFlowParts({
      requiredCredentials: ['Email'],
      requiredClaims: [{ claimType: 'nickname', claimValue: '' }]
    })
    parts.credentials = [credential]
    await expect(signedSignUp(parts)).resolves.toHaveProperty('accessToken')
  })

  it('adds claims to the access token', async () => {
    const parts = await createFlowParts({ signupBusinessLogic: () => ({ tokenClaims: { plan: 'free' } }) })
    const { accessToken } = await signedSignUp(parts)
    expect(decodePayload(accessToken).plan).toBe('free')
  })

  it("is not called at login, nor is the login's business logic called at sign-up", async () => {
    const asked: string[] = []
    const parts = await createFlowParts({
      authenticationBusinessLogic: () => void asked.push('login'),
      signupBusinessLogic: () => void asked.push('sign up')
    })
    await signedSignUp(parts)
    await logIn(parts, { client, did, sig: signLogin(parts, wallet, { useCount: 1 }) })
    expect(asked).toEqual(['sign up', 'login'])
  })
})
