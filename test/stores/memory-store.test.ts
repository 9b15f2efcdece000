import { describe, expect, it } from '@jest/globals'
import { MemoryStore } from 'express-did-auth'
import { OldestEntry } from '../../src/adapters/memory-oldest-entry.js'
import { chargeOf, hashOf, rotationOf, service, sessionOf, START_SECONDS, useOf } from '../../src/testing/store-case.js'

describe('MemoryStore', () => {
  const ofUser = (name: string, details = {}) => sessionOf(name, { did: `did:example:${name}`, ...details })

  it('holds no more sessions than its bound; the one refreshed longest ago goes', async () => {
    const store = new MemoryStore({ maxSessions: 2 })
    await store.createSession(ofUser('a'))
    await store.createSession(ofUser('b'))
    await store.rotateRefreshToken(rotationOf('a', 'a2'))
    await store.createSession(ofUser('c'))
    expect(await store.findSession(service, hashOf('b'))).toBeUndefined()
    expect(await store.listSessions(service, 'did:example:b', START_SECONDS)).toEqual([])
    expect(await store.endSession(service, 'session-b', 'loggedOut', START_SECONDS)).toBe(false)
    expect((await store.findSession(service, hashOf('a2')))?.sessionId).toBe('session-a')
    expect((await store.findSession(service, hashOf('c')))?.sessionId).toBe('session-c')
  })

  it('remembers no more replaced tokens than it may hold sessions; the one replaced longest ago goes', async () => {
    const store = new MemoryStore({ maxSessions: 2 })
    await store.createSession(ofUser('a'))
    await store.createSession(ofUser('b'))
    await store.rotateRefreshToken(rotationOf('a', 'a2'))
    await store.rotateRefreshToken(rotationOf('b', 'b2'))
    await store.rotateRefreshToken(rotationOf('b2', 'b3'))
    expect(await store.rotateRefreshToken(rotationOf('a', 'x'))).toBe('unknown')
    expect(await store.rotateRefreshToken(rotationOf('b', 'x'))).toBe('replaced')
    expect(await store.rotateRefreshToken(rotationOf('a2', 'a3'))).toBe('rotate')
    expect(await store.rotateRefreshToken(rotationOf('b', 'x'))).toBe('unknown')
  })

  it('forgets expired sessions, two whenever one comes', async () => {
    const store = new MemoryStore()
    for (const name of ['a', 'b', 'c']) await store.createSession(ofUser(name))
    const late = { nowSeconds: START_SECONDS + 3600, expiresAtSeconds: START_SECONDS + 7200 }
    await store.createSession(ofUser('d', late))
    const isKnown = async (name: string) => (await store.findSession(service, hashOf(name))) !== undefined
    expect([await isKnown('a'), await isKnown('b'), await isKnown('c')]).toEqual([false, false, true])
    await store.createSession(ofUser('e', late))
    expect(await isKnown('c')).toBe(false)
  })

  it('refuses a new use of a challenge beyond its bound until a window is over for 60 s, and never forgets one', async () => {
    const store = new MemoryStore({ maxChallengeUses: 2 })
    const next = { window: 6_000_001, expiresAtSeconds: START_SECONDS + 600 }
    expect(await store.useChallenge(useOf({ did: 'a' }))).toBe('used')
    expect(await store.useChallenge(useOf({ did: 'b', ...next }))).toBe('used')
    expect(await store.useChallenge(useOf({ did: 'c', nowSeconds: START_SECONDS + 299 }))).toBe('full')
    expect(await store.useChallenge(useOf({ did: 'a', useCount: 1 }))).toBe('used')
    expect(await store.useChallenge(useOf({ did: 'c', nowSeconds: START_SECONDS + 359, ...next }))).toBe('full')
    expect(await store.useChallenge(useOf({ did: 'c', nowSeconds: START_SECONDS + 360, ...next }))).toBe('used')
    expect(await store.useChallenge(useOf({ did: 'b', nowSeconds: START_SECONDS + 300, ...next }))).toBe('taken')
  })

  it('holds no more quotas of a kind than its bound; the one that began first goes', async () => {
    const store = new MemoryStore({ maxQuotas: 2 })
    for (const key of ['a', 'b', 'c']) await store.chargeQuota(chargeOf({ key }))
    expect((await store.chargeQuota(chargeOf({ key: 'b' }))).count).toBe(2)
    expect((await store.chargeQuota(chargeOf({ key: 'a', cost: 0 }))).count).toBe(0)
  })
})

describe('OldestEntry', () => {
  it('finds the entry set first, as entries go and come', () => {
    const map = new Map<string, { value: number }>()
    const oldest = new OldestEntry(map)
    const find = () => oldest.find()?.[0]
    expect(find()).toBeUndefined()
    for (let value = 0; value < 100; value += 1) map.set(String(value), { value })
    expect(find()).toBe('0')
    map.delete('0')
    map.delete('1')
    expect(find()).toBe('2')
    map.delete('2')
    map.set('2', { value: 2 })
    expect(find()).toBe('3')
    for (let value = 3; value < 100; value += 1) map.delete(String(value))
    expect(find()).toBe('2')
    map.clear()
    expect(find()).toBeUndefined()
    map.set('3', { value: 3 })
    expect(find()).toBe('3')
  })
})
