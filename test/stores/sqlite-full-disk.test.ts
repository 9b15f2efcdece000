import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { QuotaCounter } from '../../src/stores/sqlite/quota-counter.js'
import { openQuotaConnection } from '../../src/stores/sqlite/quota-database.js'
import { toChargeRow } from '../../src/stores/sqlite/quota-row.js'
import { isDiskFull, sqliteCode } from '../../src/stores/sqlite/sqlite-error.js'
import type { SqlConnection } from '../../src/stores/sqlite/sqlite-engine.js'
import { SqliteStore } from '../../src/stores/sqlite/sqlite-store.js'
import { QUOTAS_IN_MEMORY } from '../../src/stores/sqlite/worker-message.js'
import { chargeOf, START_SECONDS } from '../../src/testing/store-case.js'
import { startedWorkers } from '../support/start-sqlite-worker.js'
import { engines, sqliteFile, type SqliteFile } from '../support/sqlite-stores.js'

const END_SECONDS = START_SECONDS + 60

describe.each(engines)('quotas by %s on a full disk', (engine) => {
  let files: SqliteFile
  let connection: SqlConnection
  const full = jest.fn()

  beforeEach(() => {
    files = sqliteFile(engine)
    connection = openQuotaConnection(`${files.file}-quotas`, engine, 100)
    full.mockReset()
  })
  afterEach(async () => {
    connection.close()
    await files.remove()
  })

  /** SQLite answers SQLITE_FULL at its own page limit as it does at the end of the disk. */
  const fillDisk = (): void => {
    const pages = Number(connection.prepare('PRAGMA page_count').get()?.page_count)
    connection.exec(`PRAGMA max_page_count = ${String(pages)}`)
  }
  const freeDisk = (): void => {
    connection.exec('PRAGMA max_page_count = 1000000')
  }
  const counterOf = () => {
    const outcomes: unknown[] = []
    const counter = new QuotaCounter(
      connection,
      100_000,
      {
        succeed: (_id, result) => outcomes.push(result),
        fail: (_id, error) => outcomes.push(sqliteCode(error))
      },
      full
    )
    const charge = (...charges: Parameters<typeof chargeOf>[0][]): unknown[] => {
      outcomes.length = 0
      charges.forEach((details, id) => {
        counter.add([id, 'chargeQuota', toChargeRow(chargeOf(details))], performance.now())
      })
      counter.run(() => undefined)
      return [...outcomes]
    }
    return { charge }
  }
  const strangers = Array.from({ length: 200 }, (_, index) => ({ key: `stranger-${String(index)}-${'x'.repeat(200)}` }))

  it('are counted in memory, each new one from 1, up to its limit', () => {
    const { charge } = counterOf()
    fillDisk()
    const states = charge(...strangers)
    expect(states).toEqual(strangers.map(() => [true, 1, END_SECONDS]))
    expect(full).toHaveBeenCalled()
    const [{ key }] = strangers.slice(-1) as [{ key: string }]
    expect(charge({ key, limit: 2 }, { key, limit: 2 })).toEqual([
      [true, 2, END_SECONDS],
      [false, 2, END_SECONDS]
    ])
  })

  it('go on from the count on disk, which is read, and end with its slot', () => {
    const { charge } = counterOf()
    expect(charge({ cost: 5, limit: 8 })).toEqual([[true, 5, END_SECONDS]])
    fillDisk()
    // The insertion fails, and its group is run one by one.
    charge(...strangers)
    const later = { nowSeconds: START_SECONDS + 30, limit: 8 }
    expect(charge({ ...later, cost: 2 })).toEqual([[true, 7, END_SECONDS]])
    expect(charge({ ...later, cost: 2 })).toEqual([[false, 7, END_SECONDS]])
  })

  it('are written again once there is space', () => {
    const { charge } = counterOf()
    fillDisk()
    charge(...strangers)
    const calls = full.mock.calls.length
    freeDisk()
    expect(charge({ key: 'new' }, { key: 'new' })).toEqual([
      [true, 1, END_SECONDS],
      [true, 2, END_SECONDS]
    ])
    expect(full.mock.calls.length).toBe(calls)
    expect(connection.prepare("SELECT count FROM did_auth_request_quotas WHERE quota_key LIKE 'new%'").get()).toEqual({
      count: 2
    })
  })

  it('are an error when the disk is broken and not full', () => {
    const { charge } = counterOf()
    connection.exec('DROP TABLE did_auth_request_quotas')
    expect(charge({})).toEqual(['SQLITE_ERROR'])
    expect(full).not.toHaveBeenCalled()
    expect(isDiskFull(Object.assign(new Error('x'), { code: 'SQLITE_IOERR_WRITE' }))).toBe(false)
  })

  it('are reported once for a store, to its logger', async () => {
    const warn = jest.fn()
    const store = new SqliteStore(files.file, { logger: { warn } }, engine)
    await store.ping()
    for (const { worker } of startedWorkers.slice(-2)) {
      worker.emit('message', QUOTAS_IN_MEMORY)
      worker.emit('message', QUOTAS_IN_MEMORY)
    }
    expect(warn.mock.calls).toEqual([[{ event: 'quotas-in-memory' }, 'the disk is full: quotas are counted in memory']])
    await store.close()
  })
})
