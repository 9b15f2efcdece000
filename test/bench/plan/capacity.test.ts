import { describe, expect, it } from '@jest/globals'
import { capacityOf } from './capacity.js'
import { distrust, type UnitCosts, type Validation } from './unit-costs.js'
import { firstSeenShare, workloadOf } from './workload.js'

const cost = (nodeMicroseconds: number, postgresMicroseconds: number, walBytes: number, trips: number) => ({
  nodeMicroseconds,
  postgresMicroseconds,
  walBytes,
  trips
})

/** The costs that the design's table was made with. Logins and challenges have a quota each. */
const costs: UnitCosts = {
  measuredAt: '2026-01-01',
  machine: 'none',
  requests: {
    challenge: cost(0, 98, 0, 2),
    login: cost(900, 450 + 98, 1_000, 5),
    refresh: cost(400, 190, 270, 2),
    guarded: cost(190, 98, 0, 1)
  },
  firstSeenMicroseconds: 0,
  wake: { nodeMicroseconds: 0, postgresMicroseconds: 0 },
  idle: { node: 0, postgres: 0 },
  bytesPerSession: 1_400,
  serviceShape: [1]
}

const capacityFor = (users: number) => capacityOf(workloadOf({ users }), costs)

/** Whether a number is that of the table, which has two digits. */
const isAbout = (value: number, inTable: number): boolean => Math.abs(value / inTable - 1) <= 0.07

describe('capacityOf, with the costs of the design', () => {
  it.each([
    [1e6, 520, 63, 1],
    [1e8, 52_000, 6_300, 104],
    [1e9, 520_000, 63_000, 1_040]
  ])('has the rates of %d users', (users, guarded, refresh, login) => {
    const { rates } = capacityFor(users)
    expect(isAbout(rates.guarded, guarded)).toBe(true)
    expect(isAbout(rates.refresh, refresh)).toBe(true)
    expect(isAbout(rates.login, login)).toBe(true)
  })

  it.each([
    [1e6, 0.13, 2],
    [1e8, 13, 19],
    [1e9, 130, 188]
  ])('has the instances of %d users', (users, cores, instances) => {
    const capacity = capacityFor(users)
    expect(isAbout(capacity.nodeCores, cores)).toBe(true)
    expect(capacity.instances).toBe(instances)
  })

  it.each([
    [1e6, 0.0123, 0.91, 0.27],
    [1e8, 1.23, 91, 27],
    [1e9, 12.3, 910, 270]
  ])('has the sessions of %d users', (users, cores, gigabytes, coldWal) => {
    const { sessions } = capacityFor(users)
    expect(isAbout(sessions.cores, cores)).toBe(true)
    expect(isAbout(sessions.gigabytes, gigabytes)).toBe(true)
    expect(isAbout(sessions.coldWal, coldWal)).toBe(true)
    expect(isAbout(sessions.warmWal, (coldWal * 17) / 270)).toBe(true)
  })

  it('keeps quotas in PostgreSQL at 1 million users, and in Redis beyond', () => {
    const { coresInPostgres, redisPrimaries } = capacityFor(1e6).quotas
    expect(isAbout(coresInPostgres, 0.051)).toBe(true)
    expect(redisPrimaries).toBe(0)
    expect(capacityFor(1e8).quotas).toMatchObject({ coresInPostgres: 0, redisPrimaries: 1 })
    expect(capacityFor(1e9).quotas).toMatchObject({ coresInPostgres: 0, redisPrimaries: 10 })
  })

  it.each([
    [1e6, 210, 21, 5, 80, 'PostgreSQL'],
    [1e8, 21_000, 2_100, 500, 8_000, 'object storage'],
    [1e9, 210_000, 21_000, 5_000, 80_000, 'object storage']
  ])('has the vault of %d users', (users, reads, writes, index, content, place) => {
    const { rates, vault } = capacityFor(users)
    expect(isAbout(rates.vaultRead, reads)).toBe(true)
    expect(isAbout(rates.vaultWrite, writes)).toBe(true)
    expect(isAbout(vault.indexGigabytes, index)).toBe(true)
    expect(isAbout(vault.contentGigabytes, content)).toBe(true)
    expect(vault.contentIn).toBe(place)
  })

  it.each([
    [1e6, 1, 1],
    [1e8, 1, 4],
    [1e9, 10, 40]
  ])('has the primaries of %d users', (users, auth, vault) => {
    const { authPrimaries, vaultPrimaries } = capacityFor(users)
    expect([authPrimaries, vaultPrimaries]).toEqual([auth, vault])
  })

  it('counts the tokens that are new to an instance', () => {
    const newTokens = { ...costs, firstSeenMicroseconds: 100 }
    const plain = capacityFor(1e8)
    const { nodeCores, instances, firstSeenShare: share } = capacityOf(workloadOf({ users: 1e8 }), newTokens)
    expect(nodeCores).toBeCloseTo(plain.nodeCores + (plain.rates.guarded * share * 100) / 1e6)
    expect(instances).toBeGreaterThan(plain.instances)
  })
})

describe('workloadOf', () => {
  it('takes what is given, also as text, and the default of the rest', () => {
    expect(workloadOf({ users: '1e9', refreshes: 12 })).toMatchObject({ users: 1e9, refreshes: 12, guarded: 50 })
  })

  it.each(['many', '-1', 'Infinity'])('refuses %s users', (users) => {
    expect(() => workloadOf({ users })).toThrow(RangeError)
  })
})

describe('firstSeenShare', () => {
  it('is 0 with one instance, which verified what it issued, and grows with instances', () => {
    const rates = { guarded: 80, refresh: 9, login: 1 }
    expect(firstSeenShare(rates, 1)).toBe(0)
    expect(firstSeenShare(rates, 4)).toBeCloseTo(3 / 12)
    expect(firstSeenShare(rates, 1_000)).toBeCloseTo(0.991, 3)
  })
})

describe('distrust', () => {
  const validation: Validation = {
    costsMeasuredAt: costs.measuredAt,
    validatedAt: '2026-01-02',
    machine: 'none',
    largestError: 0.25,
    runs: []
  }

  it('is undefined where the validation is of these costs and within 25 %', () => {
    expect(distrust(validation, costs)).toBeUndefined()
  })

  it.each([
    ['is missing', undefined],
    ['is of other costs', { ...validation, costsMeasuredAt: '2025-01-01' }],
    ['is off by more', { ...validation, largestError: 0.26 }]
  ])('says why, where the validation %s', (_, given) => {
    expect(distrust(given, costs)).toEqual(expect.stringContaining('validat'))
  })
})
