import { describe, expect, it } from '@jest/globals'
import { MemorySignatureCache } from '../../src/adapters/in-flight-requests.js'
import { DidAuthError } from '../../src/errors.js'
import type { Client } from '../../src/ports.js'
import { refusal } from '../support/refusal.js'

const LIFETIME_SECONDS = 300
const NOW_SECONDS = 1_000

/** A client of its own network. */
const clientOf = (network: string): Client => ({ network, isGone: () => false })
const client = clientOf('192.0.2.1')

/** Signs by writing down what was signed. */
function signing() {
  const signed: string[] = []
  return { signed, sign: (text: string) => async () => `${text} ${String(signed.push(text))}` }
}

/** Begins signatures for a number of keys, and returns what ends them. */
function fill(cache: MemorySignatureCache, count: number, client: (number: number) => Client): () => Promise<unknown> {
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

describe('remembered signatures', () => {
  it('are made once for a key until they expire', async () => {
    const cache = new MemorySignatureCache(LIFETIME_SECONDS)
    const { signed, sign } = signing()
    const first = await cache.signOnce('a', client, NOW_SECONDS, sign('a'))
    expect(await cache.signOnce('a', client, 1_299, sign('a'))).toBe(first)
    expect(signed).toEqual(['a'])
    await cache.signOnce('b', client, NOW_SECONDS, sign('b'))
    await cache.signOnce('a', client, 1_300, sign('a'))
    expect(signed).toEqual(['a', 'b', 'a'])
  })

  it('are one for many who ask while it is under way', async () => {
    const cache = new MemorySignatureCache(LIFETIME_SECONDS)
    const { signed, sign } = signing()
    const texts = await Promise.all(
      Array.from({ length: 500 }, () => cache.signOnce('a', client, NOW_SECONDS, sign('a')))
    )
    expect([new Set(texts).size, signed.length]).toEqual([1, 1])
  })

  it('that failed are not remembered', async () => {
    const cache = new MemorySignatureCache(LIFETIME_SECONDS)
    const fail = () => Promise.reject(new DidAuthError('ERR_SIGNER'))
    await expect(cache.signOnce('a', client, NOW_SECONDS, fail)).rejects.toEqual(refusal('ERR_SIGNER'))
    expect(await cache.signOnce('a', client, NOW_SECONDS, async () => 'signed')).toBe('signed')
  })

  // Cause: anybody may ask for one with each of any number of DIDs.
  it('are at most 200 under way: the next is ERR_BUSY, to come again in 1 s, and one that is known is not', async () => {
    const cache = new MemorySignatureCache(LIFETIME_SECONDS)
    const known = cache.signOnce('known', client, NOW_SECONDS, async () => 'signed')
    await known
    const end = fill(cache, 200, (number) => clientOf(`192.0.2.${number >> 4}`))
    const one = () => cache.signOnce('another', clientOf('198.51.100.1'), NOW_SECONDS, async () => 'signed')
    await expect(one()).rejects.toMatchObject({ code: 'ERR_BUSY', retryAfterSeconds: 1 })
    expect(await cache.signOnce('known', client, NOW_SECONDS, async () => 'again')).toBe('signed')
    await end()
    expect(await one()).toBe('signed')
  })

  it('are at most 20 under way for one client network, and others have their own', async () => {
    const cache = new MemorySignatureCache(LIFETIME_SECONDS)
    const end = fill(cache, 20, () => client)
    const one = (asking: Client) => cache.signOnce('another', asking, NOW_SECONDS, async () => 'signed')
    await expect(one(client)).rejects.toMatchObject({ code: 'ERR_BUSY' })
    expect(await one(clientOf('192.0.2.2'))).toBe('signed')
    await end()
  })

  it('are also given up by those that failed: 300 failures leave place for the next', async () => {
    const cache = new MemorySignatureCache(LIFETIME_SECONDS)
    for (let number = 0; number < 300; number += 1) {
      const failed = cache.signOnce(`key ${number}`, client, NOW_SECONDS, () =>
        Promise.reject(new DidAuthError('ERR_SIGNER'))
      )
      await expect(failed).rejects.toEqual(refusal('ERR_SIGNER'))
    }
    expect(await cache.signOnce('another', client, NOW_SECONDS, async () => 'signed')).toBe('signed')
  })

  it('are 5,000 at most: the oldest is forgotten first', async () => {
    const cache = new MemorySignatureCache(LIFETIME_SECONDS)
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
