import { afterEach, describe, expect, it } from '@jest/globals'
import { memoryStore } from '../../src/stores/memory/index.js'
import { prepareTables } from '../../src/stores/sqlite/prepare-tables.js'
import { SessionVerbs } from '../../src/stores/sqlite/session-database.js'
import { openConnection, type SqlConnection } from '../../src/stores/sqlite/sqlite-engine.js'
import { Sweeper } from '../../src/stores/sqlite/sweeper.js'
import { SweepClock } from '../../src/stores/sweep-clock.js'
import { service, sessionOf, START_SECONDS, useOf } from '../../src/testing/store-case.js'
import { engines } from '../support/sqlite-stores.js'

const MONTH_SECONDS = 30 * 86_400
const windowAt = (seconds: number) => {
  const window = Math.floor((START_SECONDS + seconds) / 300)
  return { nowSeconds: START_SECONDS + seconds, window, expiresAtSeconds: (window + 1) * 300 }
}

/** Both clocks, moved together or apart; seconds since the start. */
class Clocks {
  wall = 0
  monotonic = 0

  advance(seconds: number): void {
    this.wall += seconds
    this.monotonic += seconds
  }
}

describe('SweepClock', () => {
  const clocked = () => {
    const clocks = new Clocks()
    const clock = new SweepClock(() => clocks.monotonic)
    return { clocks, clock, sweep: () => clock.sweepSeconds(START_SECONDS + clocks.wall) - START_SECONDS }
  }

  it('allows no deletion in the first two windows after the start, and then goes by the wall clock', () => {
    const { clocks, sweep } = clocked()
    expect(sweep()).toBe(-Infinity)
    clocks.advance(599)
    expect(sweep()).toBe(-Infinity)
    clocks.advance(1)
    expect(sweep()).toBe(600)
    clocks.advance(86_400)
    expect(sweep()).toBe(87_000)
  })

  it('ignores a jump ahead of a month for a minute, and one of less than two windows', () => {
    const { clocks, sweep } = clocked()
    sweep()
    clocks.advance(600)
    expect(sweep()).toBe(600)
    clocks.wall += MONTH_SECONDS
    for (let second = 0; second < 60; second += 1) {
      clocks.advance(1)
      expect(sweep()).toBe(600 + second + 1)
    }
    clocks.advance(500)
    expect(sweep()).toBe(1_160)
    clocks.wall -= MONTH_SECONDS
    expect(sweep()).toBe(1_160)
  })

  it('believes a clock that was put right once it has agreed with the monotonic one for two windows', () => {
    const { clocks, sweep } = clocked()
    sweep()
    clocks.advance(600)
    expect(sweep()).toBe(600)
    clocks.wall += MONTH_SECONDS
    expect(sweep()).toBe(600)
    clocks.advance(599)
    expect(sweep()).toBe(1_199)
    clocks.advance(1)
    expect(sweep()).toBe(MONTH_SECONDS + 1_200)
  })

  it('goes back at once with a clock that is set back', () => {
    const { clocks, sweep } = clocked()
    sweep()
    clocks.advance(1_000)
    expect(sweep()).toBe(1_000)
    clocks.wall -= 500
    expect(sweep()).toBe(500)
  })

  it('takes whole seconds and the slew of NTP for no jump', () => {
    const { clocks, sweep } = clocked()
    sweep()
    clocks.advance(86_400)
    clocks.wall += 43
    expect(sweep()).toBe(86_443)
  })

  it('waits for two windows of the length in use', () => {
    const { clocks, clock, sweep } = clocked()
    clock.observeWindow({ window: 500_000, expiresAtSeconds: 500_001 * 3_600 })
    sweep()
    clocks.advance(7_199)
    expect(sweep()).toBe(-Infinity)
    clocks.advance(1)
    expect(sweep()).toBe(7_200)
  })
})

describe('a memory store, when the clock jumps ahead by a month for a minute', () => {
  it('deletes neither a session nor a used challenge, and closes no window', async () => {
    const clocks = new Clocks()
    const store = memoryStore({ monotonicSeconds: () => clocks.monotonic })
    const arrive = async (name: string) => {
      const use = { ...windowAt(clocks.wall), did: `did:example:${name}` }
      await store.consumeChallenge(useOf(use))
      await store.createSession(sessionOf(name, { did: use.did, nowSeconds: use.nowSeconds }))
    }
    await arrive('a')
    clocks.advance(900)
    await arrive('b')
    await store.createSession(sessionOf('kept', { expiresAtSeconds: START_SECONDS + 86_400 }))
    const used = useOf({ ...windowAt(900), did: 'did:example:b' })

    clocks.wall += MONTH_SECONDS
    for (let second = 0; second < 60; second += 1) {
      clocks.advance(1)
      await arrive(`ahead ${second}`)
    }
    clocks.wall -= MONTH_SECONDS
    await arrive('back')
    expect(await store.countChallengeUses(used)).toEqual({ logIn: 1, signUp: 0 })
    expect(await store.consumeChallenge(used)).toBe('taken')
    expect(await store.consumeChallenge(useOf({ ...windowAt(clocks.wall), did: 'did:example:new' }))).toBe('consumed')
    expect((await store.findSession(service, 'session-kept'))?.state).toBe('active')
  })
})

describe.each(engines)('a SQLite store by %s', (engine) => {
  const clocks = new Clocks()
  let connection: SqlConnection | undefined
  afterEach(() => {
    connection?.close()
  })

  const opened = () => {
    Object.assign(clocks, { wall: 0, monotonic: 0 })
    connection = openConnection(':memory:', engine, { synchronous: 'FULL', busyMilliseconds: 0 })
    prepareTables(connection)
    const clock = new SweepClock(() => clocks.monotonic)
    const verbs = new SessionVerbs(connection, { maxSessions: 99, maxChallengeUses: 3 }, clock)
    const sweeper = new Sweeper(clock, (sweepSeconds) => verbs.sweep(sweepSeconds))
    const sweep = async () => {
      sweeper.see(START_SECONDS + clocks.wall)
      sweeper.run()
      await new Promise(setImmediate)
    }
    const countRows = (table: string) => connection?.prepare(`SELECT COUNT(*) AS number FROM ${table}`).get()?.number
    const rows = () => [countRows('did_auth_sessions'), countRows('did_auth_challenge_uses')]
    const highWater = () =>
      connection?.prepare("SELECT number FROM did_auth_numbers WHERE name = 'usesForgottenUntil'").get()?.number
    return { verbs, sweep, rows, highWater }
  }

  it('deletes nothing, and moves no high-water mark, when the clock jumps ahead by a month for a minute', async () => {
    const { verbs, sweep, rows, highWater } = opened()
    await sweep()
    clocks.advance(900)
    verbs.run('createSession', [sessionOf('a', { nowSeconds: START_SECONDS + 900 })])
    verbs.run('consumeChallenge', [useOf(windowAt(900))])
    await sweep()
    clocks.wall += MONTH_SECONDS
    for (let second = 0; second < 60; second += 1) {
      clocks.advance(1)
      await sweep()
    }
    clocks.wall -= MONTH_SECONDS
    await sweep()
    expect([rows(), highWater()]).toEqual([[1, 1], 0])
  })

  it('deletes by a clock that has run for two windows, and sets the mark to the newest window deleted', async () => {
    const { verbs, sweep, rows, highWater } = opened()
    verbs.run('createSession', [sessionOf('a')])
    verbs.run('consumeChallenge', [useOf()])
    await sweep()
    // The day after the one on which the session expires.
    clocks.advance(2 * 86_400)
    await sweep()
    expect([rows(), highWater()]).toEqual([[0, 0], START_SECONDS + 300])
  })

  it('that is full deletes no used challenge by a clock that jumped, and takes new ones once the clock has run on', () => {
    const { verbs } = opened()
    const consume = (did: string) => verbs.run('consumeChallenge', [useOf({ did, ...windowAt(clocks.wall) })])
    expect(['a', 'b', 'c', 'd'].map(consume)).toEqual(['consumed', 'consumed', 'consumed', 'full'])
    clocks.wall += MONTH_SECONDS
    expect(consume('d')).toBe('full')
    clocks.wall -= MONTH_SECONDS
    expect(verbs.run('consumeChallenge', [useOf({ did: 'a' })])).toBe('taken')
    expect(consume('e')).toBe('full')
    clocks.advance(600)
    expect(consume('d')).toBe('consumed')
  })
})
