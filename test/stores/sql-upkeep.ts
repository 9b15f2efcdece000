import { afterEach, beforeEach, expect, it } from '@jest/globals'
import type { Store } from '../../src/ports.js'
import type { PostgresStoreOptions } from '../../src/stores/postgres/index.js'
import type { SweepTimes } from '../../src/stores/sql/sql-store.js'
import { SweepClock } from '../../src/stores/sweep-clock.js'
import {
  anotherService,
  createCharge,
  createRotation,
  service,
  createSession,
  START_SECONDS,
  createUse
} from '../../src/testing/store-case.js'
import { until } from '../support/fixtures/until.js'

/** Empty tables of one engine, and stores on them whose sweeps trust each clock immediately. */
export interface SqlTables {
  store(options?: Pick<PostgresStoreOptions, 'maxSessions' | 'maxChallengeUses'>, times?: SweepTimes): Store
  rows(text: string): Promise<Record<string, unknown>[]>
  /** Updates the estimated sizes of tables, as PostgreSQL does periodically. */
  analyze(): Promise<unknown>
  remove(): Promise<void>
}

/** Tests how a store bounds its tables and deletes their old rows. `open` returns empty tables. */
export function sqlUpkeepTests(open: () => Promise<SqlTables>): void {
  let tables: SqlTables
  beforeEach(async () => {
    tables = await open()
  })
  afterEach(() => tables.remove())

  const ofUser = (name: string, details = {}) => createSession(name, { did: `did:example:${name}`, ...details })
  const ids = async (): Promise<unknown[]> =>
    (await tables.rows('SELECT session_id FROM did_auth_sessions ORDER BY number')).map((row) => row.session_id)
  const numberIn = async (text: string): Promise<number> => Number((await tables.rows(text))[0]?.number)
  const uses = () => numberIn('SELECT count(*) AS number FROM did_auth_challenge_uses')
  const closedUntil = () => numberIn("SELECT number FROM did_auth_numbers WHERE name = 'usesForgottenUntil'")
  /** Calls verbs at this number of seconds after the start, and their sweeps, until the condition holds. */
  const sweptUntil = (store: Store, at: number, condition: () => Promise<boolean>): Promise<void> =>
    until(async () => {
      await store.chargeQuota(createCharge({ at }))
      return condition()
    }, `after a sweep: ${condition.toString()}`)

  it('evicts the oldest never refreshed sessions if it is full, and counts active ones', async () => {
    const first = tables.store()
    for (const name of ['refreshed', 'a', 'ended', 'b']) await first.createSession(ofUser(name))
    await first.rotateRefreshToken(createRotation('refreshed', 0, 1))
    await first.endSession(service, 'session-ended', 'loggedOut', START_SECONDS)
    await tables.analyze()
    const store = tables.store({ maxSessions: 4 })
    const evicted: number[] = []
    for (const name of ['c', 'd', 'e']) evicted.push(await store.createSession(ofUser(name)))
    expect(evicted).toEqual([1, 0, 1])
    expect(await ids()).toEqual(['refreshed', 'c', 'd', 'e'].map((name) => `session-${name}`))
  })

  it('refuses the first use of a challenge if it is full, and counts uses of known users', async () => {
    await tables.store().consumeChallenge(createUse())
    await tables.analyze()
    const store = tables.store({ maxChallengeUses: 1 })
    expect(await store.consumeChallenge(createUse({ service: anotherService }))).toBe('full')
    expect(await store.consumeChallenge(createUse())).toBe('taken')
    expect(await store.consumeChallenge(createUse({ flow: 'signUp' }))).toBe('consumed')
    expect(await store.consumeChallenge(createUse({ useCount: 1 }))).toBe('consumed')
  })

  it('deletes sessions that expired before today, in several batches, and no others', async () => {
    const store = tables.store()
    for (let hundred = 0; hundred < 11; hundred += 1) {
      const names = Array.from({ length: 100 }, (_, index) => String(hundred * 100 + index))
      await Promise.all(names.map((name) => store.createSession(ofUser(name))))
    }
    await store.createSession(ofUser('good', { until: 10 * 86_400 }))
    await sweptUntil(store, 86_400 + 3_600, async () => (await ids()).length === 1)
    expect(await ids()).toEqual(['session-good'])
  })

  it('deletes records of ended sessions when they are listed no longer, and no others', async () => {
    const store = tables.store()
    for (const [name, until] of [['a', 100], ['b', 101], ['c', 5_000]] as const) {
      await store.createSession(ofUser(name))
      await store.endSession(service, `session-${name}`, 'loggedOut', START_SECONDS, START_SECONDS + until)
    } // prettier-ignore
    const recorded = async (): Promise<unknown[]> =>
      (await store.listEndedSessions!(service, 0, 10)).map(({ sessionId }) => sessionId)
    expect(await recorded()).toEqual(['session-a', 'session-b', 'session-c'])
    await sweptUntil(store, 100, async () => (await recorded()).length < 3)
    expect(await recorded()).toEqual(['session-b', 'session-c'])
    await sweptUntil(store, 1_000, async () => (await recorded()).length < 2)
    expect(await recorded()).toEqual(['session-c'])
  })

  it('records the end of a session that it evicts because it is full', async () => {
    await tables.store().createSession(ofUser('a'))
    await tables.analyze()
    const store = tables.store({ maxSessions: 1 })
    expect(await store.createSession(ofUser('b', { listUntilSeconds: START_SECONDS + 660 }))).toBe(1)
    expect(await ids()).toEqual(['session-b'])
    expect(await store.listEndedSessions!(service, 0, 10)).toEqual([
      { sessionId: 'session-a', endedAtSeconds: START_SECONDS }
    ])
  })

  // Cause: uses were deleted a minute after their window. A clock that was set back then made signatures valid again.
  it('closes a window permanently before it deletes its uses: a slow clock reopens none', async () => {
    const store = tables.store()
    await store.consumeChallenge(createUse())
    await sweptUntil(store, 1_000, async () => (await closedUntil()) === START_SECONDS + 300)
    expect(await uses()).toBe(1)
    expect(await store.consumeChallenge(createUse({ at: 10, useCount: 1 }))).toBe('taken')
    await sweptUntil(store, 2_000, async () => (await uses()) === 0)
    await store.close()
    const secondStore = tables.store()
    expect(await secondStore.consumeChallenge(createUse({ at: 10 }))).toBe('taken')
    expect(await secondStore.consumeChallenge(createUse({ at: 10, useCount: 1 }))).toBe('taken')
    expect(await secondStore.consumeChallenge(createUse({ did: 'never seen' }))).toBe('taken')
    // The next window had no uses that the store could have deleted.
    expect(await secondStore.consumeChallenge(createUse({ window: 6_000_001, at: 310, until: 600 }))).toBe('consumed')
  })

  it('deletes the uses of a window even if windows end more often than the wait', async () => {
    const store = tables.store({}, { clock: new SweepClock(undefined, 0), graceSeconds: 1 })
    let window = 0
    await until(async () => {
      window += 1
      const end = window * 1_000
      await store.consumeChallenge(createUse({ window: 6_000_000 + window, at: end - 10, until: end }))
      await store.chargeQuota(createCharge({ at: end + 990 }))
      return (await numberIn('SELECT min(challenge_window) AS number FROM did_auth_challenge_uses')) > 6_000_001
    })
  })
}
