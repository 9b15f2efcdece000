import { afterEach, describe, expect, it } from '@jest/globals'
import { memoryStore } from '../../src/stores/memory/index.js'
import { SweepClock } from '../../src/stores/sweep-clock.js'
import { createCharge, service, createSession, START_SECONDS, createUse } from '../../src/testing/store-case.js'
import { engine, sqliteFile, type SqliteFile } from '../support/servers/sqlite-stores.js'

const MONTH_SECONDS = 30 * 86_400
const windowAt = (seconds: number) => {
  const window = Math.floor((START_SECONDS + seconds) / 300)
  return { nowSeconds: START_SECONDS + seconds, window, expiresAtSeconds: (window + 1) * 300 }
}

/** Wall clock and monotonic clock in seconds since the start, which a test moves together or separately. */
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

  it('allows no deletion in the first two windows after the start, and then follows the wall clock', () => {
    const { clocks, sweep } = clocked()
    expect(sweep()).toBe(-Infinity)
    clocks.advance(599)
    expect(sweep()).toBe(-Infinity)
    clocks.advance(1)
    expect(sweep()).toBe(600)
    clocks.advance(86_400)
    expect(sweep()).toBe(87_000)
  })

  it('ignores a jump of a month ahead for a minute, and one of less than two windows', () => {
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

  it('trusts a corrected clock after it agreed with the monotonic one for two windows', () => {
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

  it('follows a clock that is set back immediately', () => {
    const { clocks, sweep } = clocked()
    sweep()
    clocks.advance(1_000)
    expect(sweep()).toBe(1_000)
    clocks.wall -= 500
    expect(sweep()).toBe(500)
  })

  it('does not treat whole seconds and the slew of NTP as a jump', () => {
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

describe('a memory store if the clock jumps a month ahead for a minute', () =>
  it('deletes neither a session nor a used challenge, and closes no window', async () => {
    const clocks = new Clocks()
    const store = memoryStore({ monotonicSeconds: () => clocks.monotonic })
    const arrive = async (name: string) => {
      const use = { ...windowAt(clocks.wall), did: `did:example:${name}` }
      await store.consumeChallenge(createUse(use))
      await store.createSession(createSession(name, { did: use.did, nowSeconds: use.nowSeconds }))
    }
    await arrive('a')
    clocks.advance(900)
    await arrive('b')
    await store.createSession(createSession('kept', { expiresAtSeconds: START_SECONDS + 86_400 }))
    const used = createUse({ ...windowAt(900), did: 'did:example:b' })

    clocks.wall += MONTH_SECONDS
    for (let second = 0; second < 60; second += 1) {
      clocks.advance(1)
      await arrive(`ahead ${second}`)
    }
    clocks.wall -= MONTH_SECONDS
    await arrive('back')
    expect(await store.countChallengeUses(used)).toEqual({ logIn: 1, signUp: 0 })
    expect(await store.consumeChallenge(used)).toBe('taken')
    expect(await store.consumeChallenge(createUse({ ...windowAt(clocks.wall), did: 'did:example:new' }))).toBe(
      'consumed'
    )
    expect((await store.findSession(service, 'session-kept'))?.state).toBe('active')
  }))

describe(`a SQLite store by ${engine}`, () => {
  let files: SqliteFile
  afterEach(() => files.remove())

  const opened = () => {
    const clocks = new Clocks()
    files = sqliteFile()
    const store = files.store({}, { clock: new SweepClock(() => clocks.monotonic), graceSeconds: 0 })
    const countRows = (table: string) => files.rows(`SELECT count(*) AS number FROM ${table}`)[0]?.number
    return {
      clocks,
      store,
      /** Runs a verb, and waits for the sweep that it starts. */
      async arrive() {
        await store.chargeQuota(createCharge({ nowSeconds: START_SECONDS + clocks.wall }))
        for (let verb = 0; verb < 8; verb += 1) await store.ping()
      },
      rows: () => [countRows('did_auth_sessions'), countRows('did_auth_challenge_uses')],
      closedUntil: () => files.rows("SELECT number FROM did_auth_numbers WHERE name = 'usesForgottenUntil'")[0]?.number
    }
  }

  it('deletes nothing, and closes no window, if the clock jumps a month ahead for a minute', async () => {
    const { clocks, store, arrive, rows, closedUntil } = opened()
    await arrive()
    clocks.advance(900)
    await store.createSession(createSession('a', { nowSeconds: START_SECONDS + 900 }))
    await store.consumeChallenge(createUse(windowAt(900)))
    await arrive()
    clocks.wall += MONTH_SECONDS
    for (let second = 0; second < 60; second += 20) {
      clocks.advance(20)
      await arrive()
    }
    clocks.wall -= MONTH_SECONDS
    await arrive()
    expect([rows(), closedUntil()]).toEqual([[1, 1], 0])
  })

  // Cause: a window that was closed while the machine's clock was ahead kept all others open until that time.
  it("closes windows also after the machine's clock was ahead", async () => {
    const { clocks, store, arrive, closedUntil } = opened()
    await store.consumeChallenge(createUse())
    await arrive()
    const ahead = String(Math.floor(Date.now() / 1000) + MONTH_SECONDS)
    files.inspect().exec(`UPDATE did_auth_numbers SET changed_at = ${ahead} WHERE name = 'usesForgottenUntil'`)
    clocks.advance(86_400)
    await arrive()
    expect(closedUntil()).toBe(START_SECONDS + 300)
  })
})
