import { afterEach, describe, expect, it, jest } from '@jest/globals'
import express from 'express'
import { requireToken, resourceTokenVerifier, type ResourceVerifierOptions } from 'express-did-auth/verify'
import request from 'supertest'
import { createNumberedWallet, TestClock } from '../support/fixtures/fixtures.js'
import { refusal } from '../support/fixtures/refusal.js'
import { createPayload, ORDERS, signToken, startIssuer, type TestIssuer } from '../support/servers/resource-tokens.js'
import { resourceKey } from '../support/servers/test-app.js'

const METADATA = 'https://orders.example/.well-known/oauth-protected-resource'
const options = { issuer: 'https://auth.example', audience: ORDERS }
const invalid = refusal('ERR_ACCESS_TOKEN')

afterEach(() => void jest.restoreAllMocks())

const createVerifier = (issuer: TestIssuer, changes: Partial<ResourceVerifierOptions> = {}) =>
  resourceTokenVerifier({ issuer: issuer.url, audience: ORDERS, clock: new TestClock(), ...changes })

describe('resourceTokenVerifier', () => {
  it('returns the user of a token, also from a request of Node or of the web', async () => {
    const issuer = await startIssuer()
    const verify = createVerifier(issuer)
    const token = await issuer.tokenFor(ORDERS)
    const user = await verify(token)
    const { did } = createNumberedWallet(1)
    expect(user).toEqual({
      did,
      canonicalDid: did,
      address: did.slice(13),
      sessionId: expect.any(String),
      claims: user.claims
    })
    expect(user.claims).toMatchObject({ iss: issuer.url, aud: ORDERS, sub: did, client_id: issuer.url })
    const headers = { authorization: `bearer ${token}` }
    expect(await verify.request({ headers })).toEqual(user)
    expect(await verify.request(new Request(ORDERS, { headers }))).toEqual(user)
    expect(verify.audience).toBe(ORDERS)
  })

  it('accepts issuer and audience with a slash after the origin, also with ended sessions', async () => {
    const issuer = await startIssuer({ endedSessions: true })
    const urls = { issuer: `${issuer.url}/`, audience: `${ORDERS}/` }
    const verify = createVerifier(issuer, { ...urls, endedSessions: true })
    expect((await verify(await issuer.tokenFor(ORDERS))).claims).toMatchObject({ iss: issuer.url, aud: ORDERS })
  })

  it.each<[string, object, object]>([
    ['another issuer', { iss: 'https://auth.example' }, {}],
    ['another audience', { aud: 'https://files.example' }, {}],
    ['another algorithm', {}, { alg: 'ES256K' }],
    ['the typ of an access token', {}, { typ: 'JWT' }],
    ['an unknown kid', {}, { kid: 'unknown' }],
    ['no kid', {}, { kid: undefined }]
  ])('refuses a token with %s', async (_what, claims, header) => {
    const issuer = await startIssuer()
    const token = await signToken(issuer, createPayload(issuer, claims), header)
    await expect(createVerifier(issuer)(token)).rejects.toEqual(invalid)
  })

  it('refuses a token whose `exp` has passed', async () => {
    const issuer = await startIssuer()
    const clock = new TestClock()
    const verify = createVerifier(issuer, { clock })
    const token = await issuer.tokenFor(ORDERS)
    await verify(token)
    clock.seconds += 300
    await expect(verify(token)).rejects.toEqual(refusal('ERR_ACCESS_TOKEN_EXPIRED'))
  })

  it('refuses an access token of the service, and values that are no token', async () => {
    const issuer = await startIssuer()
    const verify = createVerifier(issuer)
    const { accessToken } = await issuer.logIn()
    for (const token of [accessToken, '', 'a.b.c', undefined, null, 5, {}])
      await expect(verify(token)).rejects.toEqual(invalid)
  })

  it.each<[string, Record<string, string>, string]>([
    ['no header', {}, 'ERR_ACCESS_TOKEN_MISSING'],
    ['a cookie', { cookie: 'authorization=a.b.c' }, 'ERR_ACCESS_TOKEN_MISSING'],
    ['the scheme DIDAuth', { authorization: 'DIDAuth a.b.c' }, 'ERR_ACCESS_TOKEN'],
    ['the scheme DPoP', { authorization: 'DPoP a.b.c' }, 'ERR_ACCESS_TOKEN'],
    ['no token', { authorization: 'Bearer' }, 'ERR_ACCESS_TOKEN'],
    ['two tokens', { authorization: 'Bearer a.b.c, Bearer a.b.c' }, 'ERR_ACCESS_TOKEN']
  ])('refuses a request with %s', async (_what, headers, code) => {
    const verify = resourceTokenVerifier(options)
    await expect(verify.request({ headers })).rejects.toEqual(refusal(code as 'ERR_ACCESS_TOKEN'))
  })

  it('refuses a valid token after DIDAuth, which is for access tokens', async () => {
    const issuer = await startIssuer()
    const headers = { authorization: `DIDAuth ${await issuer.tokenFor(ORDERS)}` }
    await expect(createVerifier(issuer).request({ headers })).rejects.toEqual(refusal('ERR_ACCESS_TOKEN'))
  })

  it('fetches nothing with `keys`, and accepts only the given networks', async () => {
    const issuer = await startIssuer()
    const token = await issuer.tokenFor(ORDERS)
    issuer.asked = []
    const keys = [resourceKey(1)]
    await expect(createVerifier(issuer, { keys, networks: ['rsk'] })(token)).resolves.toBeDefined()
    await expect(createVerifier(issuer, { keys, networks: [''] })(token)).rejects.toEqual(
      refusal('ERR_DID_UNSUPPORTED')
    )
    expect(issuer.asked).toEqual([])
  })

  it('keeps the fetch of keys alive with `waitUntil`, and answers ERR_KEYS with a warning without keys', async () => {
    const warn = jest.spyOn(console, 'warn').mockImplementation(() => undefined)
    const issuer = await startIssuer()
    const headers = { authorization: `Bearer ${await issuer.tokenFor(ORDERS)}` }
    issuer.answer = (_req, res) => res.writeHead(500).end()
    const work: Promise<unknown>[] = []
    const waitUntil = (promise: Promise<unknown>): void => void work.push(promise)
    await expect(createVerifier(issuer).request({ headers }, { waitUntil })).rejects.toEqual(refusal('ERR_KEYS'))
    expect(work).toHaveLength(1)
    expect(warn).toHaveBeenCalledTimes(1)
  })

  it('refuses the token of a session that has ended, with `endedSessions`', async () => {
    const issuer = await startIssuer({ endedSessions: true })
    const { clock } = issuer
    const verify = createVerifier(issuer, { endedSessions: true, clock })
    const { accessToken } = await issuer.logIn()
    const token = await issuer.tokenFor(ORDERS, accessToken)
    await verify(token)
    await issuer.logOut(accessToken).expect(200)
    clock.seconds += 3
    const polls: Promise<unknown>[] = []
    await verify.request(
      { headers: { authorization: `Bearer ${token}` } },
      { waitUntil: (poll) => void polls.push(poll) }
    )
    await Promise.all(polls)
    await expect(verify(token)).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
  })

  it.each<[string, object]>([
    ['no issuer', { issuer: undefined }],
    ['a DID as issuer', { issuer: 'did:ethr:rsk:0x1a642f0e3c3af545e7acbd38b07251b3990914f1' }],
    ['an issuer without https', { issuer: 'http://auth.example' }],
    ['no audience', { audience: '' }],
    ['an audience with a quote', { audience: 'https://orders.example/"' }],
    ['endedSessions with an invalid member', { endedSessions: { pollSeconds: 0 } }],
    ['an empty list of keys', { keys: [] }],
    ['keys of another curve', { keys: [{ ...resourceKey(1), crv: 'P-384' }] }],
    ['networks that are a text', { networks: 'rsk' }],
    ['the network mainnet', { networks: ['mainnet'] }],
    ['a clock without its method', { clock: {} }]
  ])('refuses options with %s', (_what, changes) => {
    expect(() => resourceTokenVerifier({ ...options, ...changes })).toThrow(refusal('ERR_CONFIG'))
  })

  it('refuses an unknown option', () => {
    const misspelt = { ...options, network: ['rsk'] }
    expect(() => resourceTokenVerifier(misspelt)).toThrow(
      new TypeError('unknown option network: the options are issuer, audience, endedSessions, keys, networks, clock')
    )
  })
})

describe('requireToken with resourceMetadata', () => {
  const challenge = async (guard: Parameters<typeof requireToken>, headers: Record<string, string> = {}) => {
    const app = express().get('/orders', requireToken(...guard), (req, res) => res.json(req.user))
    const { status, text, headers: answered } = await request(app).get('/orders').set(headers)
    return [status, text, answered['www-authenticate']]
  }
  const verify = resourceTokenVerifier(options)

  it('names the metadata in each 401, with an error if a token was presented', async () => {
    const guard = [verify, { resourceMetadata: METADATA }] as const
    const missing = `Bearer resource_metadata="${METADATA}"`
    const refused = `Bearer error="invalid_token", resource_metadata="${METADATA}"`
    expect(await challenge([...guard])).toEqual([401, 'Missing access token', missing])
    for (const Authorization of ['Bearer a.b.c', 'DIDAuth a.b.c'])
      expect(await challenge([...guard], { Authorization })).toEqual([401, 'Invalid access token', refused])
  })

  it('leaves the challenge unchanged without the option', async () => {
    expect(await challenge([verify])).toEqual([401, 'Missing access token', 'DIDAuth realm="https://orders.example"'])
  })

  it('sets req.user and req.auth by a resource token', async () => {
    const issuer = await startIssuer()
    const token = await issuer.tokenFor(ORDERS)
    const guard = requireToken(createVerifier(issuer), { resourceMetadata: METADATA })
    const app = express().get('/', guard, (req, res) => res.json([req.user?.did, req.auth?.canonicalDid]))
    const { did } = createNumberedWallet(1)
    await request(app).get('/').set('Authorization', `Bearer ${token}`).expect(200, [did, did])
  })

  it.each(['orders', 'ftp://orders.example', 'https://orders.example/"', 5])('refuses the URL %s at setup', (url) => {
    expect(() => requireToken(verify, { resourceMetadata: url as string })).toThrow(refusal('ERR_CONFIG'))
  })
})
