import { describe, expect, it } from '@jest/globals'
import { ExpiringCache, RecentEntries } from '../src/caches.js'
import { createSignatureCache } from '../src/adapters/in-flight-requests.js'
import { DidAuthError } from '../src/errors.js'
import type { Client, SignatureCache } from '../src/ports.js'
import { refusal } from './support/fixtures/refusal.js'

const NOW = 1_800_000_000
const createCache = (maxEntries = 3, maxWeight?: number): ExpiringCache<string> =>
  new ExpiringCache({ lifetimeSeconds: 10, maxEntries, ...(maxWeight !== undefined && { maxWeight }) })

describe('ExpiringCache', () => {
  it('returns a value and its remaining lifetime until it expires', () => {
    const cache = createCache()
    cache.set('a', 'A', NOW)
    expect(cache.get('a', NOW + 9)).toEqual({ value: 'A', secondsLeft: 1 })
    expect(cache.get('a', NOW + 10)).toBeUndefined()
    expect(cache.get('b', NOW)).toBeUndefined()
  })

  // Cause: expired results stayed cached until a thousand others had arrived.
  it('deletes expired entries on the next lookup of any key', () => {
    const cache = createCache()
    cache.set('a', 'A', NOW)
    cache.set('b', 'B', NOW + 5)
    cache.get('c', NOW + 10)
    expect(cache.size).toBe(1)
    cache.set('c', 'C', NOW + 15)
    expect(cache.size).toBe(1)
  })

  it('deletes entries that were cached before the clock was set back', () => {
    const cache = createCache()
    cache.set('a', 'A', NOW)
    expect(cache.get('a', NOW - 1)).toBeUndefined()
    expect(cache.size).toBe(0)
  })

  it('deletes the oldest entries beyond its maximum number; setting a value again makes it the newest', () => {
    const cache = createCache()
    for (const key of ['a', 'b', 'c', 'a', 'd']) cache.set(key, key, NOW)
    expect(['a', 'b', 'c', 'd'].filter((key) => cache.get(key, NOW))).toEqual(['a', 'c', 'd'])
  })

  it('deletes the oldest entries beyond its weight, and no longer counts replaced or expired ones', () => {
    const cache = createCache(100, 10)
    cache.set('a', 'A', NOW, 6)
    cache.set('a', 'A', NOW, 4)
    cache.set('b', 'B', NOW + 5, 6)
    expect(cache.size).toBe(2)
    cache.set('c', 'C', NOW + 10, 4)
    expect(['a', 'b', 'c'].filter((key) => cache.get(key, NOW + 10))).toEqual(['b', 'c'])
    cache.set('d', 'D', NOW + 10, 1)
    expect(['b', 'c', 'd'].filter((key) => cache.get(key, NOW + 10))).toEqual(['c', 'd'])
  })
})

function setEntries(entries: RecentEntries<number>, from: number, to: number): void {
  for (let number = from; number <= to; number += 1) entries.set(`key ${number}`, number)
}

describe('RecentEntries', () => {
  it('returns the value of a key, and undefined for a key that was never set', () => {
    const entries = new RecentEntries<number>()
    setEntries(entries, 1, 2)
    expect(entries.get('key 2')).toBe(2)
    expect(entries.get('key 3')).toBeUndefined()
    expect(entries.get('__proto__')).toBeUndefined()
  })

  // A lookup moves an entry to the younger generation, so each lookup needs separate entries.
  it.each([
    [1, true, false],
    [5_000, true, false],
    [5_001, true, true],
    [10_000, true, true],
    [10_001, false, true]
  ])(
    'holds two generations of 5,000: number %d of 10,000 is cached: %j, of 10,001: %j',
    (number, knownOf10000, knownOf10001) => {
      const knows = [10_000, 10_001].map((count) => {
        const entries = new RecentEntries<number>()
        setEntries(entries, 1, count)
        return entries.get(`key ${number}`) !== undefined
      })
      expect(knows).toEqual([knownOf10000, knownOf10001])
    }
  )

  it('keeps entries that are used, however many others arrive', () => {
    const entries = new RecentEntries<number>()
    setEntries(entries, 1, 1)
    for (let generation = 0; generation < 5; generation += 1) {
      setEntries(entries, 10 + generation * 4_000, 10 + generation * 4_000 + 3_999)
      expect(entries.get('key 1')).toBe(1)
    }
  })

  it('deletes all entries of both generations when it is cleared', () => {
    const entries = new RecentEntries<number>()
    setEntries(entries, 1, 5_001)
    entries.clear()
    expect([entries.get('key 1'), entries.get('key 5001')]).toEqual([undefined, undefined])
  })
})

const LIFETIME_SECONDS = 300
const NOW_SECONDS = 1_000

/** Returns a client in a separate network. */
const createClient = (network: string): Client => ({ network, isGone: () => false })
const client = createClient('192.0.2.1')

/** Returns a signer that records what it signed. */
function signing() {
  const signed: string[] = []
  return { signed, sign: (text: string) => async () => `${text} ${String(signed.push(text))}` }
}

/** Starts signatures for a number of keys, and returns a function that completes them. */
function fill(cache: SignatureCache, count: number, client: (number: number) => Client): () => Promise<unknown> {
  let end: (signature: string) => void = () => undefined
  const signed = new Promise<string>((resolve) => (end = resolve))
  const pending = Array.from({ length: count }, (_, number) =>
    cache.signOnce(`key ${number}`, client(number), NOW_SECONDS, () => signed)
  )
  return () => {
    end('signed')
    return Promise.all(pending)
  }
}

describe('createSignatureCache', () => {
  it('signs once per key until the signature expires', async () => {
    const cache = createSignatureCache(LIFETIME_SECONDS)
    const { signed, sign } = signing()
    const first = await cache.signOnce('a', client, NOW_SECONDS, sign('a'))
    expect(await cache.signOnce('a', client, 1_299, sign('a'))).toBe(first)
    expect(signed).toEqual(['a'])
    await cache.signOnce('b', client, NOW_SECONDS, sign('b'))
    await cache.signOnce('a', client, 1_300, sign('a'))
    expect(signed).toEqual(['a', 'b', 'a'])
  })

  it('shares one signature among concurrent callers', async () => {
    const cache = createSignatureCache(LIFETIME_SECONDS)
    const { signed, sign } = signing()
    const texts = await Promise.all(
      Array.from({ length: 500 }, () => cache.signOnce('a', client, NOW_SECONDS, sign('a')))
    )
    expect([new Set(texts).size, signed.length]).toEqual([1, 1])
  })

  it('does not cache failed signatures', async () => {
    const cache = createSignatureCache(LIFETIME_SECONDS)
    const fail = () => Promise.reject(new DidAuthError('ERR_SIGNER'))
    await expect(cache.signOnce('a', client, NOW_SECONDS, fail)).rejects.toEqual(refusal('ERR_SIGNER'))
    expect(await cache.signOnce('a', client, NOW_SECONDS, async () => 'signed')).toBe('signed')
  })

  // Cause: anyone may request a signature for any number of DIDs.
  it('allows 200 signatures in flight: the next gets ERR_BUSY and 1 s, a cached one still succeeds', async () => {
    const cache = createSignatureCache(LIFETIME_SECONDS)
    const cached = cache.signOnce('known', client, NOW_SECONDS, async () => 'signed')
    await cached
    const end = fill(cache, 200, (number) => createClient(`10.${number}.0.1`))
    const signOne = () => cache.signOnce('another', createClient('198.51.100.1'), NOW_SECONDS, async () => 'signed')
    await expect(signOne()).rejects.toMatchObject({ code: 'ERR_BUSY', retryAfterSeconds: 1 })
    expect(await cache.signOnce('known', client, NOW_SECONDS, async () => 'again')).toBe('signed')
    await end()
    expect(await signOne()).toBe('signed')
  })

  it('allows 20 signatures in flight per client network', async () => {
    const cache = createSignatureCache(LIFETIME_SECONDS)
    const end = fill(cache, 20, () => client)
    const signOne = (asking: Client) => cache.signOnce('another', asking, NOW_SECONDS, async () => 'signed')
    await expect(signOne(client)).rejects.toMatchObject({ code: 'ERR_BUSY' })
    expect(await signOne(createClient('192.0.2.2'))).toBe('signed')
    await end()
  })

  it('frees the slot of a failed signature: after 300 failures the next one succeeds', async () => {
    const cache = createSignatureCache(LIFETIME_SECONDS)
    for (let number = 0; number < 300; number += 1) {
      const failed = cache.signOnce(`key ${number}`, client, NOW_SECONDS, () =>
        Promise.reject(new DidAuthError('ERR_SIGNER'))
      )
      await expect(failed).rejects.toEqual(refusal('ERR_SIGNER'))
    }
    expect(await cache.signOnce('another', client, NOW_SECONDS, async () => 'signed')).toBe('signed')
  })

  it('holds at most 5,000 signatures, and deletes the oldest first', async () => {
    const cache = createSignatureCache(LIFETIME_SECONDS)
    const { signed, sign } = signing()
    for (let number = 1; number <= 5_001; number += 1)
      await cache.signOnce(`key ${number}`, client, NOW_SECONDS, sign('one'))
    expect(signed).toHaveLength(5_001)
    await cache.signOnce('key 2', client, NOW_SECONDS, sign('one'))
    expect(signed).toHaveLength(5_001)
    await cache.signOnce('key 1', client, NOW_SECONDS, sign('one'))
    expect(signed).toHaveLength(5_002)
  })
})
