import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { DidAuthConfig } from 'express-did-auth'
import { accessTokenVerifier, type EndedSessionsOptions } from 'express-did-auth/verify'
import { pureCurve } from '../../src/adapters/curve-pure.js'
import { computeSessionTag } from '../../src/protocol/ended-sessions.js'
import { es256k, forgeJwt } from '../protocol/forge-jwt.js'
import { afterTest } from '../support/fixtures/after-test.js'
import { createNumberedWallet, serviceWallet, START_SECONDS } from '../support/fixtures/fixtures.js'
import { catchCode, refusal } from '../support/fixtures/refusal.js'
import { testApp, type TestApp } from '../support/servers/test-app.js'
import { createHttpServer } from '../support/servers/http-server.js'

type Verifier = ReturnType<typeof accessTokenVerifier>

/** A service on a port of this machine. The test sees the requests for its list, and may answer them itself. */
interface Site extends TestApp {
  url: string
  /** Query of each request for the list. */
  queries: string[]
  /** Status of each answer with the list. */
  statuses: number[]
  /** Answers requests for the list instead of the service. */
  answer: RequestListener | undefined
  verifier: (endedSessions?: boolean | EndedSessionsOptions) => Verifier
}

async function startSite(config: Partial<DidAuthConfig> = {}): Promise<Site> {
  let handle: RequestListener = () => undefined
  const server = createHttpServer((req, res) => {
    const [path, query = ''] = (req.url ?? '').split('?')
    const isList = path?.endsWith('/ended-sessions') === true
    if (isList) {
      site.queries.push(query)
      res.on('finish', () => site.statuses.push(res.statusCode))
    }
    ;((isList ? site.answer : undefined) ?? handle)(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterTest(
    () => server.close(),
    () => server.closeAllConnections()
  )
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const app = await testApp({ serviceUrl: url, loginDomains: ['service.example'], endedSessions: true, ...config })
  handle = app.app
  const verifier: Site['verifier'] = (endedSessions = true) =>
    accessTokenVerifier({ issuer: serviceWallet.did, audience: url, endedSessions, clock: app.clock })
  const site: Site = { ...app, url, queries: [], statuses: [], answer: undefined, verifier }
  return site
}

let site: Site
let warn: jest.SpiedFunction<typeof console.warn>
beforeEach(async () => {
  warn = jest.spyOn(console, 'warn').mockImplementation(() => undefined)
  site = await startSite()
})
afterEach(() => {
  jest.restoreAllMocks()
})

/** Moves the clock ahead, starts a poll by a request, and waits until the list was read. */
async function poll(verify: Verifier, token: string, seconds: number): Promise<void> {
  site.clock.seconds += seconds
  const works: Promise<unknown>[] = []
  const request = { headers: { authorization: `Bearer ${token}` } }
  await catchCode(verify.request(request, { waitUntil: (work) => works.push(work) }))
  await Promise.all(works)
}

const sign = es256k(serviceWallet.privateKey)
const header = { alg: 'ES256K', typ: 'ended-sessions+jwt' }

/** Creates the payload of a list that the reader accepts now. */
function createPayload(fields: object = {}): object {
  const now = site.clock.seconds
  const times = { iat: now, exp: now + 60, after: now - 660, until: now }
  return { iss: serviceWallet.did, aud: site.url, ...times, more: false, ended: [], ...fields }
}

const answerText =
  (text: string, status = 200): RequestListener =>
  (_req, res) => {
    res.writeHead(status).end(text)
  }

describe('accessTokenVerifier with endedSessions', () => {
  it('refuses the token of a session that was logged out, and accepts those of other sessions', async () => {
    const verify = site.verifier()
    const [first, second] = [await site.logIn(), await site.logIn()]
    await expect(verify(first.accessToken)).resolves.toBeDefined()
    await site.logOut(first.accessToken)
    await poll(verify, second.accessToken, 2)
    await expect(verify(first.accessToken)).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
    await expect(verify(second.accessToken)).resolves.toBeDefined()
  })

  it('resolves only the DID that signed the list, and accepts the list while the other DID is unavailable', async () => {
    const [{ did }, unavailable] = [serviceWallet, createNumberedWallet(2).did]
    const verificationMethod = [{ id: `${did}#1`, controller: did, blockchainAccountId: `eip155:30:${did.slice(-42)}` }]
    const resolved: string[] = []
    const resolve = async (issuer: string): Promise<object> => {
      resolved.push(issuer)
      if (issuer !== did) throw new Error('unavailable')
      const didDocument = { id: did, verificationMethod, assertionMethod: [`${did}#1`] }
      return { didResolutionMetadata: {}, didDocumentMetadata: {}, didDocument }
    }
    const options = { audience: site.url, resolver: { resolve }, endedSessions: true, clock: site.clock }
    const verify = accessTokenVerifier({ issuer: [unavailable, did], ...options })
    const [ended, active] = [await site.logIn(), await site.logIn()]
    await site.logOut(ended.accessToken)
    await expect(verify(active.accessToken)).resolves.toBeDefined()
    await expect(verify(ended.accessToken)).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
    expect(resolved).toEqual([did])
  })

  it('knows sessions that ended before its first request', async () => {
    const { accessToken } = await site.logIn()
    await site.logOut(accessToken)
    await expect(site.verifier()(accessToken)).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
  })

  it.each([
    ['requireDid.sessions.revoke', (sid: string) => site.requireDid.sessions.revoke(sid)],
    ['requireDid.sessions.revokeAll', () => site.requireDid.sessions.revokeAll(createNumberedWallet(1).did)]
  ])('refuses a session that was ended by %s', async (_name, end) => {
    const { accessToken } = await site.logIn()
    await end(accessToken.length > 0 ? (await site.verifier(false)(accessToken)).sessionId! : '')
    await expect(site.verifier()(accessToken)).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
  })

  it('refuses the session of a stolen refresh token', async () => {
    const { accessToken, refreshToken } = await site.logIn()
    await site.refresh(refreshToken).expect(200)
    site.clock.seconds += 11
    await site.refresh(refreshToken).expect(401)
    await expect(site.verifier()(accessToken)).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
  })

  it('requests the list at most once in pollSeconds, after the last one, and accepts 304', async () => {
    const verify = site.verifier()
    const { accessToken } = await site.logIn()
    for (let count = 0; count < 5; count += 1) await verify(accessToken)
    expect(site.queries).toEqual([''])
    await poll(verify, accessToken, 2)
    await poll(verify, accessToken, 2)
    expect(site.queries).toEqual(['', `after=${START_SECONDS}`, `after=${START_SECONDS + 2}`])
    await poll(verify, accessToken, 2)
    expect(site.statuses).toEqual([200, 200, 200, 304])
  })

  it('refuses with 503 once the list is stale, and accepts again with the next list', async () => {
    const verify = site.verifier()
    const { accessToken } = await site.logIn()
    await verify(accessToken)
    site.answer = answerText('', 500)
    await poll(verify, accessToken, 30)
    await expect(verify(accessToken)).resolves.toBeDefined()
    site.clock.seconds += 2
    await expect(verify(accessToken)).rejects.toEqual(refusal('ERR_ENDED_SESSIONS'))
    site.answer = undefined
    site.clock.seconds += 2
    await expect(verify(accessToken)).resolves.toBeDefined()
  })

  it('accepts while the list is stale with whenStale accept, still refuses known sessions, and warns once', async () => {
    const verify = site.verifier({ whenStale: 'accept' })
    const [ended, active] = [await site.logIn(), await site.logIn()]
    await site.logOut(ended.accessToken)
    await verify(active.accessToken)
    site.answer = answerText('', 500)
    for (let count = 0; count < 3; count += 1) {
      await poll(verify, active.accessToken, 40)
      await expect(verify(active.accessToken)).resolves.toBeDefined()
    }
    await expect(verify(ended.accessToken)).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
    expect(warn).toHaveBeenCalledTimes(1)
  })

  it.each(['accept', 'refuse'] as const)(
    'reads the whole list again after a pause of 2,000 s, with %s',
    async (whenStale) => {
      const verify = site.verifier({ whenStale })
      await verify((await site.logIn()).accessToken)
      site.clock.seconds += 2_000
      const { accessToken } = await site.logIn()
      await poll(verify, accessToken, 0)
      await expect(verify(accessToken)).resolves.toBeDefined()
      await site.logOut(accessToken)
      await poll(verify, accessToken, 2)
      await expect(verify(accessToken)).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
    }
  )

  it('is not fresh while further lists are missing', async () => {
    const { accessToken } = await site.logIn()
    site.answer = (req, res) => {
      if (req.headers['if-none-match'] !== undefined) res.writeHead(304).end()
      else res.setHeader('ETag', '"1"').end(forgeJwt(header, createPayload({ more: true }), sign))
    }
    const verify = site.verifier()
    for (let count = 0; count < 3; count += 1) {
      await expect(verify(accessToken)).rejects.toEqual(refusal('ERR_ENDED_SESSIONS'))
      site.clock.seconds += 2
    }
  })

  it('passes a fetch in the background to waitUntil', async () => {
    const works: Promise<unknown>[] = []
    const verify = site.verifier({ waitUntil: (work) => works.push(work) })
    const { accessToken } = await site.logIn()
    await verify(accessToken)
    site.clock.seconds += 2
    await verify.request(
      { headers: { authorization: `Bearer ${accessToken}` } },
      { waitUntil: (work) => works.push(work) }
    )
    expect(works).toHaveLength(2)
    await Promise.all(works)
    expect(site.queries).toHaveLength(2)
  })

  it.each<[string, () => string]>([
    [
      'a period that is shorter than the life of a token',
      () => forgeJwt(header, createPayload({ after: site.clock.seconds - 299 }), sign)
    ],
    ['another issuer', () => forgeJwt(header, createPayload({ iss: createNumberedWallet(2).did }), sign)],
    ['another audience', () => forgeJwt(header, createPayload({ aud: 'https://other.example' }), sign)],
    ['another typ', () => forgeJwt({ ...header, typ: 'JWT' }, createPayload(), sign)],
    ['another algorithm', () => forgeJwt({ ...header, alg: 'none' }, createPayload(), sign)],
    ['another header field', () => forgeJwt({ ...header, kid: '1' }, createPayload(), sign)],
    ['another key', () => forgeJwt(header, createPayload(), es256k(createNumberedWallet(2).privateKey))],
    ['no signature', () => forgeJwt(header, createPayload(), () => new Uint8Array(64))],
    ['an exp that has passed', () => forgeJwt(header, createPayload({ exp: site.clock.seconds }), sign)],
    ['an exp of another type', () => forgeJwt(header, createPayload({ exp: '9999999999' }), sign)],
    ['no until', () => forgeJwt(header, createPayload({ until: undefined }), sign)],
    ['an until before after', () => forgeJwt(header, createPayload({ until: site.clock.seconds - 661 }), sign)],
    ['a tag of another length', () => forgeJwt(header, createPayload({ ended: ['abc'] }), sign)],
    ['a list of numbers', () => forgeJwt(header, createPayload({ ended: [1] }), sign)],
    ['no more', () => forgeJwt(header, createPayload({ more: undefined }), sign)],
    ['more than 512 KiB', () => forgeJwt(header, createPayload({ text: 'a'.repeat(400_000) }), sign)],
    ['no JWT', () => '<html>']
  ])('ignores a list with %s', async (_name, createText) => {
    const { accessToken } = await site.logIn()
    site.answer = answerText(createText())
    await expect(site.verifier()(accessToken)).rejects.toEqual(refusal('ERR_ENDED_SESSIONS'))
  })

  it.each([
    ['begins after the requested time', () => ({ after: site.clock.seconds })],
    ['ends more than 30 s before the last one', () => ({ until: START_SECONDS - 31 })]
  ])('ignores a list that %s', async (_name, createFields) => {
    const verify = site.verifier()
    const { accessToken } = await site.logIn()
    await verify(accessToken)
    const tag = computeSessionTag(pureCurve, (await verify(accessToken)).sessionId!)
    site.answer = (_req, res) => res.end(forgeJwt(header, createPayload({ ended: [tag], ...createFields() }), sign))
    await poll(verify, accessToken, 2)
    await expect(verify(accessToken)).resolves.toBeDefined()
  })

  it('ignores a redirect', async () => {
    const { accessToken } = await site.logIn()
    site.answer = (_req, res) =>
      res.writeHead(302, { Location: `${site.url}/.well-known/ended-sessions?again=1` }).end()
    await expect(site.verifier()(accessToken)).rejects.toEqual(refusal('ERR_ENDED_SESSIONS'))
    expect(site.queries).toEqual([''])
  })

  it('forgets a session only after twice the time of the list, when its tokens have expired', async () => {
    const verify = site.verifier()
    const [ended, active] = [await site.logIn(), await site.logIn()]
    await site.logOut(ended.accessToken)
    await verify(active.accessToken)
    for (let count = 0; count < 20; count += 1) {
      await poll(verify, active.accessToken, 29)
      expect(await catchCode(verify(ended.accessToken))).toBe('ERR_SESSION_ENDED')
    }
  })

  it.each([
    ['a number', 5],
    ['another url', { url: 'http://example.com/list' }],
    ['a pollSeconds of 0', { pollSeconds: 0 }],
    ['a fraction of maxStaleSeconds', { maxStaleSeconds: 1.5 }],
    ['another whenStale', { whenStale: 'ignore' }],
    ['a waitUntil that is no function', { waitUntil: true }]
  ])('throws ERR_CONFIG for %s', (_name, option) => {
    expect(() => site.verifier(option as never)).toThrow(refusal('ERR_CONFIG'))
  })
})
