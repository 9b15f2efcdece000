import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { createIssuerKeyCache, type IssuerKeys } from '../../src/adapters/cached-issuer-keys.js'
import type { Client } from '../../src/ports.js'

const ADDRESS = '0x7e5f4552091a69125d5dfcb7b8c2659029395bdf'
const KEYS = [{ id: undefined, kind: 'address', hex: ADDRESS.slice(2) }]
const DOCUMENT = { didDocument: { assertionMethod: [{ ethereumAddress: ADDRESS }] } }

const createClient = (network: string): Client => ({ network, isGone: () => false })
const did = (number: number): string => `did:web:issuer-${String(number)}.example`
const round = (): Promise<void> => new Promise(setImmediate)

interface Asked {
  did: string
  signal: AbortSignal
  answer: (answer: unknown) => void
  fail: (error: unknown) => void
}

let asked: Asked[]
let clock: { seconds: number; nowSeconds: () => number }
let issuers: IssuerKeys

beforeEach(() => {
  asked = []
  clock = { seconds: 1_800_000_000, nowSeconds: () => clock.seconds }
  const resolver = {
    resolve: (name: string, options?: { signal?: AbortSignal }) =>
      new Promise<unknown>((answer, fail) => asked.push({ did: name, signal: options!.signal!, answer, fail }))
  }
  issuers = createIssuerKeyCache(clock, resolver, 'assertionMethod')
})

afterEach(() => {
  jest.useRealTimers()
})

/** Looks an issuer up, and answers the resolution if there is one. */
async function learn(number: number, answer: unknown = DOCUMENT): Promise<unknown> {
  const count = asked.length
  const keys = issuers.keysOf(did(number), createClient('a')).catch((error: unknown) => error)
  await round()
  if (asked.length > count) asked.at(-1)?.answer(answer)
  return keys
}

describe('createIssuerKeyCache', () => {
  it('caches a result for 60 s', async () => {
    expect(await learn(1)).toEqual(KEYS)
    clock.seconds += 59
    expect(await learn(1)).toEqual(KEYS)
    expect(asked).toHaveLength(1)
    clock.seconds += 1
    expect(await learn(1)).toEqual(KEYS)
    expect(asked).toHaveLength(2)
  })

  it('does not extend the cache time if the clock is set back', async () => {
    await learn(1)
    clock.seconds -= 3_600
    await learn(1)
    expect(asked).toHaveLength(2)
  })

  it('caches the results of 1000 issuers, and deletes the oldest first', async () => {
    for (let number = 0; number < 1_001; number += 1) await learn(number)
    asked.length = 0
    await learn(1)
    await learn(1_000)
    expect(asked).toEqual([])
    await learn(0)
    expect(asked.map((one) => one.did)).toEqual([did(0)])
  })

  // Cause: 1000 documents of 64 KiB each were cached completely.
  it('caches at most 3 MiB of documents', async () => {
    const didDocument = { assertionMethod: [{ ethereumAddress: ADDRESS }], filler: '' }
    didDocument.filler = 'x'.repeat(32 * 1024 - JSON.stringify(didDocument).length)
    const document = { didDocument }
    for (let number = 0; number < 97; number += 1) expect(await learn(number, document)).toEqual(KEYS)
    asked.length = 0
    await learn(1, document)
    expect(asked).toEqual([])
    await learn(0, document)
    expect(asked).toHaveLength(1)
  })

  it.each([
    ['an unproved issuer', { didResolutionMetadata: { error: 'notFound' } }, 'ERR_CREDENTIAL_ISSUER'],
    ['a deactivated issuer', { ...DOCUMENT, didDocumentMetadata: { deactivated: true } }, 'ERR_CREDENTIAL_ISSUER'],
    ['a document without keys', { didDocument: {} }, 'ERR_CREDENTIAL_ISSUER'],
    ['an answer that is none', {}, 'ERR_RESOLVER']
  ])('caches %s for 10 s', async (_name, answer, code) => {
    expect(await learn(1, answer)).toMatchObject({ code, retryAfterSeconds: 10 })
    clock.seconds += 9
    const cause = { message: expect.stringContaining('cached failure, for 1 s more') }
    expect(await learn(1, answer)).toMatchObject({ code, retryAfterSeconds: 1, cause })
    expect(asked).toHaveLength(1)
    clock.seconds += 1
    expect(await learn(1)).toEqual(KEYS)
    expect(asked).toHaveLength(2)
  })

  it('caches a failure of the resolver for 10 s, and returns when to retry', async () => {
    const first = issuers.keysOf(did(1), createClient('a'))
    await round()
    asked[0]?.fail(new Error('away'))
    await expect(first).rejects.toMatchObject({ code: 'ERR_RESOLVER', retryAfterSeconds: 10 })
    clock.seconds += 4
    const second = issuers.keysOf(did(1), createClient('b'))
    await expect(second).rejects.toMatchObject({ code: 'ERR_RESOLVER', retryAfterSeconds: 6 })
    expect(asked).toHaveLength(1)
  })

  const ask = (number: number, network: string): Promise<unknown> => issuers.keysOf(did(number), createClient(network))

  /** Looks up two issuers from each of these networks, and returns the number of resolutions. */
  async function askTwiceFrom(networks: string[]): Promise<number> {
    networks.forEach((network, at) => [2 * at, 2 * at + 1].forEach((one) => void ask(one, network).catch(() => 0)))
    await round()
    return asked.length
  }
  const range = (length: number, network: (at: number) => string) => Array.from({ length }, (_, at) => network(at))

  it.each([
    ['one address', ['192.0.2.1'], 2],
    ['30 addresses of one /24', range(30, (at) => `192.0.2.${String(at)}`), 12],
    ['a /48 of IPv6', range(30, (at) => `2001:db8:1:${at.toString(16)}::/64`), 12],
    ['30 addresses that share nothing', range(30, (at) => `10.${String(at)}.0.1`), 42]
  ])('keeps slots for other networks despite %s', async (_name, networks, count) => {
    expect(await askTwiceFrom(networks)).toBe(count)
    const other = ask(100, '2001:db8:2:1::/64')
    await round()
    asked.at(-1)?.answer(DOCUMENT)
    expect(await other).toEqual(KEYS)
  })

  it('resolves 50 issuers at once, whose results other networks share', async () => {
    const createNetwork = (at: number): string => `10.${String(at)}.0.1`
    const first = Array.from({ length: 50 }, (_, number) => ask(number, createNetwork(number)))
    await expect(ask(50, createNetwork(50))).rejects.toMatchObject({ code: 'ERR_BUSY', retryAfterSeconds: 1 })
    const shared = ask(0, createNetwork(50))
    await round()
    expect(asked).toHaveLength(50)
    for (const { answer } of asked) answer(DOCUMENT)
    expect(await Promise.all([...first, shared])).toEqual(Array(51).fill(KEYS))
    const next = ask(50, createNetwork(0))
    await round()
    asked.at(-1)?.answer(DOCUMENT)
    expect(await next).toEqual(KEYS)
  })
})

describe('the abort signal of a resolver', () => {
  beforeEach(() => {
    jest.useFakeTimers()
  })

  const settle = (): Promise<unknown> => jest.advanceTimersByTimeAsync(0)

  it('aborts after 3 s', async () => {
    const keys = issuers.keysOf(did(1), createClient('a'))
    const refused = expect(keys).rejects.toMatchObject({ code: 'ERR_RESOLVER' })
    await jest.advanceTimersByTimeAsync(2_999)
    expect(asked[0]?.signal.aborted).toBe(false)
    await jest.advanceTimersByTimeAsync(1)
    await refused
    expect(asked[0]?.signal.reason).toEqual(new Error('the resolver did not answer within 3 s'))
    expect(jest.getTimerCount()).toBe(0)
  })

  it('does not abort after a result', async () => {
    const keys = issuers.keysOf(did(1), createClient('a'))
    await settle()
    asked[0]?.answer(DOCUMENT)
    expect(await keys).toEqual(KEYS)
    await jest.advanceTimersByTimeAsync(10_000)
    expect(asked[0]?.signal.aborted).toBe(false)
    expect(jest.getTimerCount()).toBe(0)
  })
})
