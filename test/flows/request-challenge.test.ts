import { describe, expect, it } from '@jest/globals'
import { Buffer } from 'node:buffer'
import { SigningKey, sha256 } from 'ethers/crypto'
import { hexlify } from 'ethers/utils'
import { DidAuthError } from '../../src/errors.js'
import { authenticate } from '../../src/flows/authenticate.js'
import { logIn, signUp } from '../../src/flows/log-in.js'
import { requestLoginChallenge, requestSignUpChallenge } from '../../src/flows/request-challenge.js'
import { refusal } from '../support/fixtures/refusal.js'
import { client, createFlowParts, signLogin, decodePayload, SERVICE_URL } from './flow-parts.js'
import { createNumberedWallet, serviceWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const { did } = wallet
// test/vectors/challenge.json: the first and the second challenge of window 6,000,000.
const FIRST = '3df1bf410e5287cc1f9de8cdeba68f2ee28f564fa4102e352773a9e45f84e722'

describe('requestLoginChallenge', () => {
  it('returns the challenge of the specification and its remaining seconds', async () => {
    const parts = await createFlowParts()
    expect(await requestLoginChallenge(parts, did)).toEqual({ challenge: FIRST, expiresInSeconds: 300 })
  })

  it('returns the same challenge to the last second of the window, and another in the next', async () => {
    const parts = await createFlowParts()
    parts.clock.seconds = START_SECONDS + 299
    expect(await requestLoginChallenge(parts, did)).toEqual({ challenge: FIRST, expiresInSeconds: 1 })
    parts.clock.seconds = START_SECONDS + 300
    const next = await requestLoginChallenge(parts, did)
    expect(next.expiresInSeconds).toBe(300)
    expect(next.challenge).not.toBe(FIRST)
  })

  it('stores nothing', async () => {
    const parts = await createFlowParts()
    await requestLoginChallenge(parts, did)
    expect(parts.steps).toEqual(['countChallengeUses'])
  })

  it('returns another challenge after a login', async () => {
    const parts = await createFlowParts()
    await logIn(parts, { client, did, sig: signLogin(parts, wallet) })
    const { challenge } = await requestLoginChallenge(parts, did)
    expect(challenge).not.toBe(FIRST)
    const sig = wallet.personalSign(`Login to service.example\nVerification code: ${challenge}`)
    await expect(logIn(parts, { client, did, sig })).resolves.toHaveProperty('accessToken')
  })

  it("returns the same challenge after a login with replayProtection 'window', without the store", async () => {
    const parts = await createFlowParts({ replayProtection: 'window' })
    await logIn(parts, { client, did, sig: signLogin(parts, wallet) })
    parts.steps.length = 0
    expect((await requestLoginChallenge(parts, did)).challenge).toBe(FIRST)
    expect(parts.steps).toEqual([])
  })

  it('uses the DID exactly as received', async () => {
    const parts = await createFlowParts()
    const { challenge } = await requestLoginChallenge(parts, `did:ethr:rsk:${wallet.address}`)
    expect(challenge).not.toBe(FIRST)
  })

  it('fails if the store fails', async () => {
    const parts = await createFlowParts()
    parts.store.countChallengeUses = () => Promise.reject(new DidAuthError('ERR_STORE'))
    await expect(requestLoginChallenge(parts, did)).rejects.toEqual(refusal('ERR_STORE'))
  })
})

describe('requestSignUpChallenge', () => {
  it('returns no sdr and signs nothing if nothing is required', async () => {
    const parts = await createFlowParts()
    expect(await requestSignUpChallenge(parts, did, { mountPath: '', client })).toEqual({
      challenge: FIRST,
      expiresInSeconds: 300
    })
    expect(parts.steps).not.toContain('sign')
  })

  it.each([
    ['credentials', { requiredCredentials: ['Email'] }],
    ['claims', { requiredClaims: [{ claimType: 'name', claimValue: '' }] }]
  ])('returns an sdr if only %s are required', async (_name, config) => {
    const parts = await createFlowParts(config)
    expect(await requestSignUpChallenge(parts, did, { mountPath: '', client })).toHaveProperty('sdr')
  })

  it('returns an sdr that is signed by the service and expires with the challenge', async () => {
    const parts = await createFlowParts({
      requiredCredentials: ['Email'],
      requiredClaims: [{ claimType: 'name', claimValue: '', reason: 'to greet you', essential: true }]
    })
    parts.clock.seconds = START_SECONDS + 100
    const { sdr = '' } = await requestSignUpChallenge(parts, did, { mountPath: '', client })
    expect(decodePayload(sdr)).toEqual({
      type: 'sdr',
      issuer: serviceWallet.did,
      subject: did,
      replyUrl: 'https://service.example/signup',
      claims: [{ claimType: 'name', claimValue: '', reason: 'to greet you', essential: true }],
      credentials: ['Email'],
      iss: serviceWallet.did,
      aud: SERVICE_URL,
      iat: START_SECONDS + 100,
      exp: START_SECONDS + 300
    })
    const [header = '', payload = '', signature = ''] = sdr.split('.')
    const rs = hexlify(Buffer.from(signature, 'base64url'))
    const digest = sha256(Buffer.from(`${header}.${payload}`))
    const keys = [27, 28].map((v) => SigningKey.recoverPublicKey(digest, `${rs}${v.toString(16)}`))
    expect(keys).toContain(SigningKey.computePublicKey(serviceWallet.privateKey, false))
  })

  it.each([
    ['https://service.example', '/api', 'https://service.example/api/join'],
    ['urn:example:service', '/api', undefined]
  ])(
    'includes for %s the mount path of the routes, here %s, and the user as received',
    async (serviceUrl, mountPath, replyUrl) => {
      const parts = await createFlowParts({ serviceUrl, requiredCredentials: ['Email'], signupPath: '/join' })
      const subject = `did:ethr:rsk:${wallet.address}`
      const { sdr = '' } = await requestSignUpChallenge(parts, subject, { mountPath, client })
      expect([decodePayload(sdr).subject, decodePayload(sdr).replyUrl]).toEqual([subject, replyUrl])
    }
  )

  it('signs once per DID, mount path and window, after waiting logins', async () => {
    const parts = await createFlowParts({ requiredCredentials: ['Email'] })
    const asked = (mountPath: string, user = did) => requestSignUpChallenge(parts, user, { mountPath, client })
    const [first, second] = await Promise.all([asked('/a'), asked('/a')])
    parts.clock.seconds += 299
    expect([second.sdr, (await asked('/a')).sdr]).toEqual([first.sdr, first.sdr])
    expect(parts.steps.filter((step) => step === 'sign')).toHaveLength(1)
    expect(parts.steps.filter((step) => step === 'yieldInBackground')).toHaveLength(1)
    await asked('/b')
    await asked('/a', createNumberedWallet(2).did)
    parts.clock.seconds += 1
    await asked('/a')
    expect(parts.steps.filter((step) => step === 'sign')).toHaveLength(4)
  })

  it('returns an sdr that is never valid as an access token', async () => {
    const parts = await createFlowParts({ requiredCredentials: ['Email'] })
    const { sdr } = await requestSignUpChallenge(parts, did, { mountPath: '', client })
    await expect(authenticate(parts, sdr)).rejects.toEqual(refusal('ERR_ACCESS_TOKEN'))
  })

  it('fails if signing fails', async () => {
    const parts = await createFlowParts({ requiredCredentials: ['Email'] })
    parts.serviceKey.issueJwt = () => Promise.reject(new DidAuthError('ERR_SIGNER'))
    await expect(requestSignUpChallenge(parts, did, { mountPath: '', client })).rejects.toEqual(refusal('ERR_SIGNER'))
  })

  it('counts the uses of sign-ups, not those of logins', async () => {
    const parts = await createFlowParts()
    const sig = signLogin(parts, wallet, { thirdLine: '\n' })
    await signUp(parts, { client, did, sig, credentialJwts: [], claims: [] })
    expect((await requestSignUpChallenge(parts, did, { mountPath: '', client })).challenge).not.toBe(FIRST)
    expect((await requestLoginChallenge(parts, did)).challenge).toBe(FIRST)
  })
})
