import { afterEach, describe, expect, it, jest } from '@jest/globals'
import { createHmac, generateKeyPairSync, type KeyObject } from 'node:crypto'
import type { RequestListener } from 'node:http'
import { SignJWT, UnsecuredJWT } from 'jose'
import { loadCurve } from '../../src/adapters/curve.js'
import { createResourceIssuer } from '../../src/adapters/resource-issuer.js'
import type { IssuerEndedSessionsOptions, ResourceKey } from '../../src/ports.js'
import { deadRpcUrl } from '../support/faults/rpc-node.js'
import { createMachine } from '../support/fixtures/machines.js'
import { refusal } from '../support/fixtures/refusal.js'
import {
  createPayload,
  encodeJson,
  ORDERS,
  signToken,
  startIssuer,
  type TestIssuer
} from '../support/servers/resource-tokens.js'
import { resourceKey } from '../support/servers/test-app.js'
import { es256k } from '../protocol/forge-jwt.js'
import { createNumberedWallet, serviceWallet, TestClock } from '../support/fixtures/fixtures.js'

const KEYS = '/.well-known/jwks.json'
const DISCOVERY = '/.well-known/did-auth.json'
const LIST = '/.well-known/ended-sessions'

/** Returns a verifier for tokens of an issuer on this machine, with a clock that the test controls. */
async function createVerifier(
  issuer: TestIssuer,
  networks?: readonly string[],
  keys?: readonly ResourceKey[],
  endedSessions?: boolean | IssuerEndedSessionsOptions
) {
  const clock = new TestClock()
  const warnings: Record<string, unknown>[] = []
  const ignore = (): void => undefined
  const logger = { info: ignore, error: ignore, warn: (fields: Record<string, unknown>) => void warnings.push(fields) }
  const parts = { issuer: issuer.url, audience: ORDERS, keys, networks, endedSessions, clock, logger, loadCurve }
  const verify = createResourceIssuer(parts)
  return { clock, warnings, verify, fetches: () => issuer.asked.filter((path) => path === KEYS).length }
}

function answerKeys(issuer: TestIssuer, keys: unknown[]): void {
  issuer.answer = (_req, res) => res.end(JSON.stringify({ keys }))
}

const invalid = refusal('ERR_ACCESS_TOKEN')

afterEach(() => void jest.restoreAllMocks())

describe('createResourceIssuer: verifying a token', () => {
  it('accepts a token that follows RFC 9068', async () => {
    const issuer = await startIssuer()
    const { verify } = await createVerifier(issuer)
    const { claims, ...user } = await verify(await signToken(issuer, createPayload(issuer, { role: 'buyer' })))
    expect(user).toEqual({ canonicalDid: serviceWallet.did, address: serviceWallet.did.slice(13) })
    expect(claims).toEqual({ ...createPayload(issuer), nbf: 1_800_000_000, role: 'buyer' })
    expect(Object.isFrozen(claims)).toBe(true)
  })

  it.each<[string, object]>([
    ['another issuer', { iss: 'https://auth.example' }],
    ['another audience', { aud: 'https://files.example' }],
    ['several audiences', { aud: [ORDERS, 'https://files.example'] }],
    ['a list of one audience', { aud: [ORDERS] }],
    ['no audience', { aud: undefined }],
    ['no subject', { sub: undefined }],
    ['a subject that is no DID', { sub: 'alice' }],
    ['no end', { exp: undefined }],
    ['an end that is no whole number', { exp: 1_800_000_300.5 }],
    ['no begin', { iat: undefined }],
    ['a begin more than 5 s ahead', { iat: 1_800_000_006 }],
    ['a credential inside', { vc: {} }],
    ['a use of its own', { use: 'relay' }]
  ])('refuses a token with %s', async (_name, changes) => {
    const issuer = await startIssuer()
    const { verify } = await createVerifier(issuer)
    await expect(verify(await signToken(issuer, createPayload(issuer, changes)))).rejects.toEqual(invalid)
  })

  it('refuses a DID on a network that the service does not use', async () => {
    const issuer = await startIssuer()
    const token = await signToken(issuer, createPayload(issuer))
    const [ours, others] = [await createVerifier(issuer, ['rsk']), await createVerifier(issuer, [''])]
    await expect(ours.verify(token)).resolves.toMatchObject({ canonicalDid: serviceWallet.did })
    await expect(others.verify(token)).rejects.toEqual(refusal('ERR_DID_UNSUPPORTED'))
  })

  it.each([
    ['a did:key', createMachine(1).didKey],
    ['a DID of 512 characters', `did:web:${'a'.repeat(504)}`]
  ])('accepts %s, which names no network, and keeps its letter case', async (_what, sub) => {
    const issuer = await startIssuer()
    const { verify } = await createVerifier(issuer, ['rsk'])
    const user = await verify(await signToken(issuer, createPayload(issuer, { sub })))
    expect(user).toMatchObject({ canonicalDid: sub, address: undefined })
  })

  it.each([
    ['a did:ethr of no network, without an address', 'did:ethr:x', 'ERR_DID_UNSUPPORTED'],
    ['a DID of 513 characters', `did:web:${'a'.repeat(505)}`, 'ERR_ACCESS_TOKEN']
  ] as const)('refuses %s', async (_what, sub, code) => {
    const issuer = await startIssuer()
    const { verify } = await createVerifier(issuer, ['rsk'])
    await expect(verify(await signToken(issuer, createPayload(issuer, { sub })))).rejects.toEqual(refusal(code))
  })

  it('treats a token as expired at its exp, and if exp is more than 305 s in the future', async () => {
    const issuer = await startIssuer()
    const { verify, clock } = await createVerifier(issuer)
    const expired = refusal('ERR_ACCESS_TOKEN_EXPIRED')
    await expect(verify(await signToken(issuer, createPayload(issuer, { exp: 1_800_000_000 })))).rejects.toEqual(
      expired
    )
    await expect(verify(await signToken(issuer, createPayload(issuer, { exp: 1_800_000_306 })))).rejects.toEqual(
      expired
    )
    const validToken = await signToken(issuer, createPayload(issuer))
    await verify(validToken)
    clock.seconds += 300
    // The token is cached, and its times are checked again.
    await expect(verify(validToken)).rejects.toEqual(expired)
  })

  it.each<[string, object]>([
    ['typ JWT', { typ: 'JWT' }],
    ['no typ', { typ: undefined }],
    ['no kid', { kid: undefined }],
    ['a kid that is no text', { kid: 5 }],
    ['a URL of keys', { jku: 'https://evil.example' }],
    ['a key of its own', { jwk: {} }],
    ['critical extensions', { crit: ['exp'] }],
    ['another alg than that of its signature', { alg: 'ES384' }]
  ])('refuses a token with %s in its header', async (_name, changes) => {
    const issuer = await startIssuer()
    const { verify } = await createVerifier(issuer)
    await expect(verify(await signToken(issuer, createPayload(issuer), changes))).rejects.toEqual(invalid)
  })

  it('refuses a token that is unsigned, too long, or signed by another key or algorithm', async () => {
    const issuer = await startIssuer()
    const { verify } = await createVerifier(issuer)
    const payload = createPayload(issuer)
    const [{ kid, x }] = (await issuer.get(KEYS)).body.keys as [{ kid: string; x: string }]
    const input = (alg: string): string => `${encodeJson({ alg, typ: 'at+jwt', kid })}.${encodeJson(payload)}`
    const hs256 = createHmac('sha256', x).update(input('HS256')).digest('base64url')
    const es256kSignature = Buffer.from(es256k(serviceWallet.privateKey)(input('ES256K'))).toString('base64url')
    const stranger: KeyObject = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey
    const validToken = await signToken(issuer, payload)
    for (const token of [
      new UnsecuredJWT(payload).encode(),
      `${input('none')}.`,
      `${input('HS256')}.${hs256}`,
      `${input('ES256K')}.${es256kSignature}`,
      await new SignJWT(payload).setProtectedHeader({ alg: 'ES256', typ: 'at+jwt', kid }).sign(stranger),
      validToken.replace(/\.[^.]*$/, '.'),
      `${validToken}=`,
      await signToken(issuer, { ...payload, text: 'x'.repeat(3_000) })
    ]) {
      await expect(verify(token)).rejects.toEqual(invalid)
    }
    await verify(validToken)
  })
})

describe('createResourceIssuer: fetching keys', () => {
  it('fetches once per 30 s for 1,000 unknown key ids', async () => {
    const issuer = await startIssuer()
    const { verify, clock, fetches } = await createVerifier(issuer)
    await verify(await issuer.tokenFor(ORDERS))
    const sendUnknownKids = async (count: number): Promise<void> => {
      const input = encodeJson(createPayload(issuer))
      const tokens = Array.from({ length: count }, (_, index) => {
        const named = encodeJson({ alg: 'ES256', typ: 'at+jwt', kid: `made up ${String(index)}` })
        return verify(`${named}.${input}.${'A'.repeat(86)}`)
      })
      const results = await Promise.allSettled(tokens)
      expect(results.every(({ status }) => status === 'rejected')).toBe(true)
    }
    clock.seconds += 29
    await sendUnknownKids(500)
    expect(fetches()).toBe(1)
    clock.seconds += 1
    await sendUnknownKids(500)
    clock.seconds += 29
    await sendUnknownKids(500)
    expect(fetches()).toBe(2)
  })

  it('does not fetch for a token that is not for this service', async () => {
    const issuer = await startIssuer()
    const { verify } = await createVerifier(issuer)
    const { accessToken } = await issuer.logIn()
    for (const token of [accessToken, 'a.b.c', '', await issuer.tokenFor('https://files.example')]) {
      await expect(verify(token)).rejects.toEqual(invalid)
    }
    expect(issuer.asked).toEqual([])
  })

  // Cause: in Workers, the fetch of a request that was cancelled never settles, and all later requests waited for it.
  it('fetches again 10 s after a fetch that does not settle', async () => {
    const issuer = await startIssuer()
    const { verify, clock } = await createVerifier(issuer)
    const token = await issuer.tokenFor(ORDERS)
    jest.spyOn(globalThis, 'fetch').mockImplementationOnce(() => new Promise(() => undefined))
    void verify(token)
    clock.seconds += 10
    await expect(verify(token)).resolves.toMatchObject({ claims: { aud: ORDERS } })
  })

  it('fetches once for concurrent users, and again after 10 min', async () => {
    const issuer = await startIssuer()
    const { verify, clock, fetches } = await createVerifier(issuer)
    const { accessToken } = await issuer.logIn()
    const tokens = [1, 2, 3].map(() => issuer.tokenFor(ORDERS, accessToken))
    await Promise.all((await Promise.all(tokens)).map((token) => verify(token)))
    expect(fetches()).toBe(1)
    issuer.clock.seconds = clock.seconds += 599
    await verify(await issuer.tokenFor(ORDERS))
    expect(fetches()).toBe(1)
    issuer.clock.seconds = clock.seconds += 1
    await verify(await issuer.tokenFor(ORDERS))
    expect(fetches()).toBe(2)
  })

  it('keeps the keys while the issuer is unavailable, with one warning per 30 s', async () => {
    const issuer = await startIssuer()
    const { verify, clock, warnings } = await createVerifier(issuer)
    await verify(await issuer.tokenFor(ORDERS))
    issuer.clock.seconds = clock.seconds += 86_400
    issuer.answer = (req) => req.socket.destroy()
    await verify(await issuer.tokenFor(ORDERS))
    await verify(await issuer.tokenFor(ORDERS))
    expect(warnings).toEqual([{ event: 'issuer-keys', issuer: issuer.url, reason: 'fetch failed: other side closed' }])
  })

  it('fails with ERR_KEYS until the first successful fetch, and retries after 30 s', async () => {
    const issuer = await startIssuer()
    const { verify, clock } = await createVerifier(issuer)
    const token = await issuer.tokenFor(ORDERS)
    issuer.answer = (req) => req.socket.destroy()
    await expect(verify(token)).rejects.toMatchObject({ code: 'ERR_KEYS', retryAfterSeconds: 30 })
    issuer.answer = undefined
    clock.seconds += 29
    await expect(verify(token)).rejects.toMatchObject({ code: 'ERR_KEYS' })
    clock.seconds += 1
    await verify(token)
  })

  it.each<[string, number, string]>([
    ['a page', 200, '<!doctype html>'],
    ['no key', 200, '{"keys":[]}'],
    ['keys of another kind', 200, '{"keys":[{"kty":"RSA","kid":"1","n":"AQAB","e":"AQAB"}]}'],
    ['no list', 200, '{"keys":{}}'],
    ['an error', 500, JSON.stringify({ keys: [{ kty: 'EC', crv: 'P-256', kid: '1', x: '', y: '' }] })],
    ['more than 64 KiB', 200, JSON.stringify({ keys: [], text: 'x'.repeat(65_536) })]
  ])('keeps the keys if the issuer responds with %s', async (_name, status, text) => {
    const issuer = await startIssuer()
    const { verify, clock } = await createVerifier(issuer)
    await verify(await issuer.tokenFor(ORDERS))
    issuer.answer = (_req, res) => res.writeHead(status).end(text)
    issuer.clock.seconds = clock.seconds += 600
    await verify(await issuer.tokenFor(ORDERS))
  })

  it('refuses a set with two keys of one kid: 503, or the previous keys, until it is fixed', async () => {
    const issuer = await startIssuer()
    const [fresh, started] = [await createVerifier(issuer), await createVerifier(issuer)]
    const token = await issuer.tokenFor(ORDERS)
    await started.verify(token)
    const [key] = (await issuer.get(KEYS)).body.keys
    const { x, y } = resourceKey(2)
    answerKeys(issuer, [key, { ...key, x, y }])
    started.clock.seconds = issuer.clock.seconds += 600
    await started.verify(await issuer.tokenFor(ORDERS))
    await expect(fresh.verify(token)).rejects.toMatchObject({ code: 'ERR_KEYS' })
    issuer.answer = undefined
    fresh.clock.seconds += 30
    await fresh.verify(token)
  })

  it('ignores keys that cannot verify', async () => {
    const issuer = await startIssuer()
    const { verify } = await createVerifier(issuer)
    const token = await issuer.tokenFor(ORDERS)
    const [key] = (await issuer.get(KEYS)).body.keys
    const others = [{ x: key.y }, { use: 'enc' }, { alg: 'ECDH-ES' }, { x: 5 }, { kid: 5 }]
    answerKeys(issuer, [...others.map((changes) => ({ ...key, ...changes })), key])
    await verify(token)
  })

  it('uses only the keys of the option, previous ones included, without a fetch', async () => {
    const issuer = await startIssuer({ resourceKeys: [resourceKey(2), resourceKey(1)] })
    const old = await signToken(issuer, createPayload(issuer), { kid: (await issuer.get(KEYS)).body.keys[1].kid })
    const token = await issuer.tokenFor(ORDERS)
    // The configuration contains the issuer's own keys with their private parts.
    const { verify, fetches } = await createVerifier(issuer, undefined, [resourceKey(2), resourceKey(1)])
    await verify(token)
    await verify(old)
    const { d: _d, ...publicHalf } = resourceKey(2)
    const strict = await createVerifier(issuer, undefined, [publicHalf])
    await strict.verify(token)
    await expect(strict.verify(old)).rejects.toEqual(invalid)
    expect(fetches() + strict.fetches()).toBe(0)
  })

  it('fetches from 127.0.0.1 for http://localhost, whose IPv6 address may be another process', async () => {
    const issuer = await startIssuer()
    const url = issuer.url.replace('127.0.0.1', 'localhost')
    const fetched = jest.spyOn(globalThis, 'fetch')
    const { verify } = await createVerifier({ ...issuer, url })
    await verify(await signToken(issuer, createPayload({ ...issuer, url })))
    expect(fetched.mock.calls.map(([fetchedUrl]) => (fetchedUrl as URL).href)).toEqual([
      `${issuer.url}${DISCOVERY}`,
      `${issuer.url}${KEYS}`
    ])
  })

  it('logs the cause if the issuer is unavailable', async () => {
    const [issuer, deadUrl] = [await startIssuer(), await deadRpcUrl()]
    const { verify, warnings } = await createVerifier({ ...issuer, url: deadUrl })
    const token = await signToken(issuer, createPayload({ ...issuer, url: deadUrl }))
    await expect(verify(token)).rejects.toMatchObject({ code: 'ERR_KEYS' })
    expect(warnings).toMatchObject([{ reason: expect.stringMatching(/^fetch failed: connect ECONNREFUSED 127/) }])
  })

  it('does not follow a redirect of the issuer', async () => {
    const [issuer, other] = [await startIssuer(), await startIssuer()]
    const { verify } = await createVerifier(issuer)
    const token = await issuer.tokenFor(ORDERS)
    issuer.answer = (_req, res) => res.writeHead(302, { Location: `${other.url}${KEYS}` }).end()
    await expect(verify(token)).rejects.toMatchObject({ code: 'ERR_KEYS' })
    expect(other.asked).toEqual([])
  })

  it('reads the URL of the keys from discovery, or uses the default URL', async () => {
    const issuer = await startIssuer()
    const { keys } = (await issuer.get(KEYS)).body
    issuer.answer = (req, res) => {
      const answers = { [KEYS]: 404, '/keys': { keys }, [DISCOVERY]: { jwks_uri: `${issuer.url}/keys` } }
      const body = answers[req.url as keyof typeof answers]
      res.writeHead(body === 404 ? 404 : 200).end(JSON.stringify(body))
    }
    const token = await issuer.tokenFor(ORDERS)
    await (await createVerifier(issuer)).verify(token)
    expect(issuer.asked).toEqual([DISCOVERY, '/keys'])
    const plain = (req: { url?: string }, res: { statusCode: number; end: (text?: string) => unknown }): void => {
      if (req.url === KEYS) res.end(JSON.stringify({ keys }))
      else Object.assign(res, { statusCode: 404 }).end()
    }
    issuer.answer = plain as never
    await (await createVerifier(issuer)).verify(token)
  })

  it('accepts a token by the previous key only while that key is published', async () => {
    const [before, after] = [resourceKey(1), resourceKey(2)]
    const issuer = await startIssuer({ resourceKeys: [before] })
    const { verify, clock } = await createVerifier(issuer)
    const old = await issuer.tokenFor(ORDERS)
    await verify(old)
    const rotated = await startIssuer({ resourceKeys: [after, before], serviceUrl: issuer.url })
    issuer.answer = rotated.app as never
    rotated.clock.seconds = clock.seconds += 30
    await verify(await rotated.tokenFor(ORDERS))
    await verify(old)
    const alone = await startIssuer({ resourceKeys: [after], serviceUrl: issuer.url })
    issuer.answer = alone.app as never
    clock.seconds += 30
    const [, claims, signature] = (await rotated.tokenFor(ORDERS)).split('.')
    await expect(
      verify(`${encodeJson({ alg: 'ES256', typ: 'at+jwt', kid: 'x' })}.${claims}.${signature}`)
    ).rejects.toEqual(invalid)
    // The token was cached, but its key is no longer published.
    await expect(verify(old)).rejects.toEqual(invalid)
  })
})

describe('createResourceIssuer: sessions that ended at the issuer', () => {
  /** Returns tokens of a session that was logged out and of an active one. */
  async function createTokens(issuer: TestIssuer): Promise<Record<'ended' | 'active', string>> {
    const [ended, active] = [await issuer.logIn(), await issuer.logIn()]
    const tokens = {
      ended: await issuer.tokenFor(ORDERS, ended.accessToken),
      active: await issuer.tokenFor(ORDERS, active.accessToken)
    }
    await issuer.logOut(ended.accessToken)
    return tokens
  }

  /** Serves the list at another path only. */
  function moveList(issuer: TestIssuer, path: string): void {
    const app = issuer.app as unknown as RequestListener
    issuer.answer = (req, res) => {
      req.url = req.url === path ? LIST : req.url === LIST ? '/nowhere' : req.url
      app(req, res)
    }
  }

  it.each<[string, (issuer: TestIssuer) => boolean | IssuerEndedSessionsOptions, ResourceKey[] | undefined]>([
    ['the list in discovery', () => true, undefined],
    ['the list at a url, and the DID in discovery', ({ url }) => ({ url: `${url}/list` }), undefined],
    ['the list in discovery, and a serviceDid', () => ({ serviceDid: serviceWallet.did }), undefined],
    ['the list in discovery, with keys that are given', () => true, [resourceKey(1)]]
  ])('are refused by %s', async (_name, createOption, keys) => {
    const issuer = await startIssuer({ endedSessions: true })
    const option = createOption(issuer)
    const { verify } = await createVerifier(issuer, undefined, keys, option)
    const { ended, active } = await createTokens(issuer)
    if (typeof option === 'object' && option.url !== undefined) moveList(issuer, '/list')
    await expect(verify(ended)).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
    await expect(verify(active)).resolves.toBeDefined()
    expect(issuer.asked).toContain(DISCOVERY)
  })

  it('are refused without discovery if url, serviceDid and keys are given', async () => {
    const issuer = await startIssuer({ endedSessions: true })
    const option = { url: `${issuer.url}${LIST}`, serviceDid: serviceWallet.did }
    const { verify } = await createVerifier(issuer, undefined, [resourceKey(1)], option)
    const { ended, active } = await createTokens(issuer)
    await expect(verify(active)).resolves.toBeDefined()
    await expect(verify(ended)).rejects.toEqual(refusal('ERR_SESSION_ENDED'))
    expect(issuer.asked).toEqual([LIST])
  })

  it('are accepted without the option', async () => {
    const issuer = await startIssuer({ endedSessions: true })
    const { verify } = await createVerifier(issuer)
    await expect(verify((await createTokens(issuer)).ended)).resolves.toBeDefined()
    expect(issuer.asked).toEqual([DISCOVERY, KEYS])
  })

  it('ignore a list of another service than serviceDid', async () => {
    const issuer = await startIssuer({ endedSessions: true })
    const option = { serviceDid: createNumberedWallet(2).did }
    const { verify, warnings } = await createVerifier(issuer, undefined, undefined, option)
    await expect(verify((await createTokens(issuer)).active)).rejects.toEqual(refusal('ERR_ENDED_SESSIONS'))
    expect(warnings).toMatchObject([
      { event: 'ended-sessions', reason: `${issuer.url}${LIST} answered an invalid list` }
    ])
  })

  it.each<[string, 'accept' | 'refuse']>([
    ['are accepted with one warning', 'accept'],
    ['cause ERR_ENDED_SESSIONS', 'refuse']
  ])('%s for an issuer with a DID of another method, with whenStale %s', async (_name, whenStale) => {
    const issuer = await startIssuer({ endedSessions: true, serviceDid: 'did:web:auth.example' })
    const { verify, warnings } = await createVerifier(issuer, undefined, undefined, { whenStale })
    const { ended, active } = await createTokens(issuer)
    for (const token of [ended, active]) {
      const verified = expect(verify(token))
      if (whenStale === 'accept') await verified.resolves.toBeDefined()
      else await verified.rejects.toEqual(refusal('ERR_ENDED_SESSIONS'))
    }
    const reason = `${issuer.url} publishes no list of ended sessions`
    expect(warnings).toMatchObject([{ event: 'ended-sessions', reason }])
    expect(issuer.asked).not.toContain(LIST)
  })
})
