import { describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { AgedMap } from '../../src/stores/memory/memory-sessions.js'
import { memoryStore, memoryStores } from '../../src/stores/memory/index.js'
import { type Store, storeVerbs } from '../../src/ports.js'
import { combineStores } from '../../src/stores/combine.js'
import {
  createCharge,
  createRotation,
  service,
  createSession,
  START_SECONDS,
  createUse
} from '../../src/testing/store-case.js'

describe('memoryStore', () => {
  const createUserSession = (name: string, details = {}) =>
    createSession(name, { did: `did:example:${name}`, ...details })
  /** Returns the names of the existing sessions. */
  const namesIn = async (store: ReturnType<typeof memoryStore>, ...names: string[]) => {
    const sessions = await Promise.all(names.map((name) => store.findSession(service, `session-${name}`)))
    return names.filter((_, index) => sessions[index] !== undefined)
  }

  it('is recognized as volatile, as is a combination with its sessions', () => {
    const store = memoryStore()
    const other = { ...store }
    const combined = (sessions: Store) => combineStores({ sessions, challengeUses: store, quotas: store })
    const stores = [store, combined(store), combined(combined(store)), other, combined(other)]
    expect(stores.map((combinedStore) => memoryStores.has(combinedStore))).toEqual([true, true, true, false, false])
  })

  // Cause: a window of 10 s had the same number as a slot of nonces. The store then used the end of that window for the
  // nonces.
  it('stores the use of a nonce until it expires, even if a window has the same number', async () => {
    let seconds = 0
    const store = memoryStore({ monotonicSeconds: () => seconds })
    const consume = (at: number, until: number, did: string) => {
      seconds = at
      return store.consumeChallenge(createUse({ at, until, did, window: 180_000_000 + Math.floor(at / 10) }))
    }
    // Sweeps trust the clock after 600 s.
    await consume(0, 10, 'did:example:first')
    expect(await consume(700, 710, 'did:example:user')).toBe('consumed')
    expect(await consume(700, 1_010, 'siwe:nonce')).toBe('consumed')
    expect(await consume(800, 810, 'did:example:later')).toBe('consumed')
    seconds = 801
    const again = { at: 801, until: 1_010, did: 'siwe:nonce', window: 180_000_070 }
    expect(await store.consumeChallenge(createUse(again))).toBe('taken')
  })

  it('stores at most its maximum of sessions per service, and evicts no refreshed one for a new user', async () => {
    const store = memoryStore({ maxSessions: 3 })
    const evicted = []
    for (const name of ['a', 'b']) evicted.push(await store.createSession(createUserSession(name)))
    await store.rotateRefreshToken(createRotation('a', 0, 1))
    for (const name of ['c', 'd', 'e', 'f']) evicted.push(await store.createSession(createUserSession(name)))
    expect(evicted).toEqual([0, 0, 0, 1, 1, 1])
    expect(await namesIn(store, 'a', 'b', 'c', 'd', 'e', 'f')).toEqual(['a', 'e', 'f'])
    expect(await store.listSessions(service, 'did:example:b', START_SECONDS)).toEqual([])
    expect(await store.endSession(service, 'session-b', 'loggedOut', START_SECONDS)).toBe(false)
    expect(await store.rotateRefreshToken(createRotation('b', 0, 1))).toBe('unknown')
    expect(await store.createSession(createUserSession('a', { service: 'https://other.example' }))).toBe(0)
  })

  it('evicts the session that was refreshed longest ago if all were refreshed', async () => {
    const store = memoryStore({ maxSessions: 3 })
    for (const name of ['a', 'b', 'c']) await store.createSession(createUserSession(name))
    for (const name of ['a', 'b', 'c']) await store.rotateRefreshToken(createRotation(name, 0, 1))
    await store.rotateRefreshToken(createRotation('a', 1, 2))
    expect(await store.createSession(createUserSession('d'))).toBe(1)
    expect(await namesIn(store, 'a', 'b', 'c', 'd')).toEqual(['a', 'c', 'd'])
  })

  it("evicts no other session if the user's own oldest or an expired one can be deleted", async () => {
    const store = memoryStore({ maxSessions: 51 })
    await store.createSession(createUserSession('brief', { expiresAtSeconds: START_SECONDS + 1 }))
    for (let index = 0; index < 50; index += 1) await store.createSession(createSession(String(index)))
    expect(await store.createSession(createSession('50'))).toBe(0)
    expect(await namesIn(store, 'brief', '0', '1', '50')).toEqual(['brief', '1', '50'])
    expect(await store.createSession(createUserSession('other', { nowSeconds: START_SECONDS + 1 }))).toBe(0)
    expect(await namesIn(store, 'brief', '1', 'other')).toEqual(['1', 'other'])
  })

  it('deletes two expired sessions, refreshed or not, per new session', async () => {
    let monotonicSeconds = 0
    const store = memoryStore({ monotonicSeconds: () => monotonicSeconds })
    const names = ['a', 'b', 'c', 'd']
    for (const name of names) await store.createSession(createUserSession(name))
    for (const name of ['a', 'b']) await store.rotateRefreshToken(createRotation(name, 0, 1))
    monotonicSeconds = 3610
    const late = { nowSeconds: START_SECONDS + 3610, expiresAtSeconds: START_SECONDS + 7200 }
    await store.createSession(createUserSession('e', late))
    expect(await namesIn(store, ...names)).toEqual(['a', 'b'])
    await store.createSession(createUserSession('f', late))
    expect(await namesIn(store, ...names)).toEqual([])
    expect(await namesIn(store, 'e', 'f')).toEqual(['e', 'f'])
  })

  it('lists at most its maximum of ended sessions, and none that it need list no longer', async () => {
    let monotonicSeconds = 0
    const store = memoryStore({ maxSessions: 4, monotonicSeconds: () => monotonicSeconds })
    const endOne = async (name: string, at: number): Promise<void> => {
      const now = START_SECONDS + at
      await store.createSession(createUserSession(name, { nowSeconds: now, expiresAtSeconds: now + 60 }))
      await store.endSession(service, `session-${name}`, 'loggedOut', now, now + 660)
    }
    const listed = async (): Promise<string[]> =>
      (await store.listEndedSessions!(service, 0, 100)).map(({ sessionId }) => sessionId.slice(8))
    for (const [index, name] of ['a', 'b', 'c', 'd', 'e', 'f'].entries()) await endOne(name, index)
    expect(await listed()).toEqual(['c', 'd', 'e', 'f'])
    monotonicSeconds = 662
    await endOne('g', 662)
    expect(await listed()).toEqual(['d', 'e', 'f', 'g'])
    await endOne('h', 662)
    expect(await listed()).toEqual(['e', 'f', 'g', 'h'])
    monotonicSeconds = 664
    await endOne('i', 664)
    expect(await listed()).toEqual(['f', 'g', 'h', 'i'])
    for (const name of ['j', 'k', 'l', 'm', 'n']) await endOne(name, 664)
    expect(await listed()).toHaveLength(4)
  })

  it('refuses a new challenge use beyond its maximum until 60 s after a window, and forgets none', async () => {
    let monotonicSeconds = 0
    const store = memoryStore({ maxChallengeUses: 2, monotonicSeconds: () => monotonicSeconds })
    const earlier = { window: 5_999_998, nowSeconds: START_SECONDS - 600, expiresAtSeconds: START_SECONDS - 300 }
    await store.consumeChallenge(createUse(earlier))
    monotonicSeconds = 600
    const next = { window: 6_000_001, expiresAtSeconds: START_SECONDS + 600 }
    expect(await store.consumeChallenge(createUse({ did: 'a' }))).toBe('consumed')
    expect(await store.consumeChallenge(createUse({ did: 'b', ...next }))).toBe('consumed')
    expect(await store.consumeChallenge(createUse({ did: 'c', nowSeconds: START_SECONDS + 299 }))).toBe('full')
    expect(await store.consumeChallenge(createUse({ did: 'a', useCount: 1 }))).toBe('consumed')
    monotonicSeconds = 959
    expect(await store.consumeChallenge(createUse({ did: 'c', nowSeconds: START_SECONDS + 359, ...next }))).toBe('full')
    monotonicSeconds = 960
    expect(await store.consumeChallenge(createUse({ did: 'c', nowSeconds: START_SECONDS + 360, ...next }))).toBe(
      'consumed'
    )
    expect(await store.consumeChallenge(createUse({ did: 'b', nowSeconds: START_SECONDS + 300, ...next }))).toBe(
      'taken'
    )
  })

  it('closes a window after its uses are deleted, and no window without uses', async () => {
    let monotonicSeconds = 0
    const store = memoryStore({ monotonicSeconds: () => monotonicSeconds })
    const window = (number: number, nowSeconds: number, did: string) =>
      createUse({ did, window: 6_000_000 + number, expiresAtSeconds: START_SECONDS + number * 300, nowSeconds })
    await store.consumeChallenge(window(1, START_SECONDS, 'a'))
    // A use with a wrong count starts no window that could be deleted later.
    await store.consumeChallenge({ ...window(2, START_SECONDS + 310, 'b'), useCount: 7 })
    monotonicSeconds = 1000
    await store.consumeChallenge(window(4, START_SECONDS + 1000, 'c'))
    expect(await store.countChallengeUses(window(1, START_SECONDS, 'a'))).toEqual({ logIn: 0, signUp: 0 })
    expect(await store.consumeChallenge(window(1, START_SECONDS + 299, 'a'))).toBe('taken')
    expect(await store.consumeChallenge(window(1, START_SECONDS + 299, 'new'))).toBe('taken')
    expect(await store.consumeChallenge(window(2, START_SECONDS + 310, 'b'))).toBe('consumed')
  })

  it('stores at most its maximum of quotas per kind, and deletes the oldest', async () => {
    const store = memoryStore({ maxQuotas: 2 })
    for (const key of ['a', 'b', 'c']) await store.chargeQuota(createCharge({ key }))
    expect((await store.chargeQuota(createCharge({ key: 'b' }))).count).toBe(2)
    expect((await store.chargeQuota(createCharge({ key: 'a' }))).count).toBe(1)
  })

  it('deletes no quota for a charge that it refuses', async () => {
    const store = memoryStore({ maxQuotas: 2 })
    for (const key of ['a', 'b']) await store.chargeQuota(createCharge({ key }))
    for (const key of ['c', 'd', 'e']) await store.chargeQuota(createCharge({ key, cost: 2, limit: 1 }))
    expect((await store.chargeQuota(createCharge({ key: 'a' }))).count).toBe(2)
  })
})

describe('AgedMap', () => {
  it('behaves like a list for every sequence of calls', () => {
    const step = fc.tuple(fc.constantFrom('set', 'set', 'delete', 'oldest'), fc.nat({ max: 8 }))
    fc.assert(
      fc.property(fc.array(step, { maxLength: 200, size: 'max' }), (steps) => {
        const map = new AgedMap<number>()
        let list: string[] = []
        for (const [index, [verb, number]] of steps.entries()) {
          const key = String(number)
          if (verb === 'oldest') expect(map.findOldest()?.[0]).toBe(list[0])
          else list = list.filter((listedKey) => listedKey !== key)
          if (verb === 'delete') map.delete(key)
          if (verb === 'set') map.set(key, index)
          if (verb === 'set') list.push(key)
          expect(map.size).toBe(list.length)
        }
        expect(map.findOldest()?.[0]).toBe(list[0])
        for (const key of list)
          expect(map.get(key)).toBe(steps.findLastIndex(([verb, number]) => verb === 'set' && String(number) === key))
      })
    )
  })

  it('keeps no deleted value in memory while its oldest entry stays', async () => {
    // Cause: the iteration of version 0.1 kept the oldest entry, and with it each table that the Map had replaced
    // since.
    const map = new AgedMap<object>()
    map.set('oldest', {})
    expect(map.findOldest()?.[0]).toBe('oldest')
    const values = Array.from({ length: 500 }, (_, index) => {
      const value = {}
      map.set(String(index % 10), value)
      return new WeakRef(value)
    })
    setFlagsFromString('--expose-gc')
    // A WeakRef keeps its target until the end of the job that created it.
    await new Promise((resolve) => setImmediate(resolve))
    ;(runInNewContext('gc') as () => void)()
    expect(values.filter((value) => value.deref() !== undefined)).toHaveLength(10)
    expect(map.findOldest()?.[0]).toBe('oldest')
  })
})

/** Creates a store whose verbs record each call, and return the name of the store and the verb. */
function notingStore(name: string, notes: string[]): Store {
  const verbs = [...Object.values(storeVerbs).flat(), 'ping', 'close']
  const note =
    (verb: string) =>
    async (...args: unknown[]) => {
      notes.push([name, verb, ...args].join(' '))
      return `${name} ${verb}`
    }
  return Object.fromEntries(verbs.map((verb) => [verb, note(verb)])) as unknown as Store
}

describe('combineStores', () => {
  it.each(Object.entries(storeVerbs).flatMap(([part, verbs]) => verbs.map((verb) => [verb, part] as const)))(
    'passes %s, with all arguments, to the store for %s',
    async (verb, part) => {
      const notes: string[] = []
      const [sessions, challengeUses, quotas] = ['sessions', 'challengeUses', 'quotas'].map((name) =>
        notingStore(name, notes)
      ) as [Store, Store, Store]
      const store = combineStores({ sessions, challengeUses, quotas }) as unknown as Record<
        string,
        (...args: unknown[]) => Promise<unknown>
      >
      expect(await store[verb]!('a', 'b', 'c', 'd')).toBe(`${part} ${verb}`)
      expect(notes).toEqual([`${part} ${verb} a b c d`])
    }
  )

  it('lists ended sessions if the store for sessions does', async () => {
    const { listEndedSessions: _without, ...lacking } = memoryStore()
    const store = memoryStore()
    const combined = combineStores({ sessions: store, challengeUses: lacking, quotas: lacking })
    await store.createSession(createSession('a'))
    await combined.endSession(service, 'session-a', 'loggedOut', START_SECONDS, START_SECONDS + 660)
    expect(await combined.listEndedSessions!(service, 0, 9)).toHaveLength(1)
    expect(combineStores({ sessions: lacking, challengeUses: store, quotas: store })).not.toHaveProperty(
      'listEndedSessions'
    )
  })

  it('pings each part, and is unavailable if one is', async () => {
    const notes: string[] = []
    const [sessions, challengeUses] = [notingStore('one', notes), notingStore('other', notes)]
    const quotas = { ...notingStore('third', notes), ping: () => Promise.reject(new Error('unavailable')) }
    await combineStores({ sessions, challengeUses, quotas: challengeUses }).ping()
    expect(notes).toEqual(['one ping', 'other ping'])
    await expect(combineStores({ sessions, challengeUses, quotas }).ping()).rejects.toThrow('unavailable')
  })

  it('closes a store once if it is several parts', async () => {
    const notes: string[] = []
    const [durable, quotas] = [notingStore('durable', notes), notingStore('quotas', notes)]
    await combineStores({ sessions: durable, challengeUses: durable, quotas }).close()
    expect(notes).toEqual(['durable close', 'quotas close'])
  })

  it('closes the other parts if one cannot be closed', async () => {
    const notes: string[] = []
    const broken = { ...notingStore('broken', notes), close: () => Promise.reject(new Error('disk full')) }
    const other = notingStore('other', notes)
    await expect(combineStores({ sessions: broken, challengeUses: other, quotas: other }).close()).rejects.toThrow(
      'disk full'
    )
    expect(notes).toEqual(['other close'])
  })
})
