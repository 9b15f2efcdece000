import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import pg from 'pg'
import { PostgresDatabase, type PostgresDatabaseOptions } from '../../src/stores/postgres/postgres-database.js'
import { getPostgresCode } from '../../src/stores/postgres/postgres-error.js'
import { testDatabase, type TestDatabase } from '../support/engines/postgres-server.js'
import { until } from '../support/fixtures/until.js'

let shared: TestDatabase
const open: { close(): Promise<void> }[] = []

function database(options: PostgresDatabaseOptions = {}, url = shared.url): PostgresDatabase {
  const opened = new PostgresDatabase(url, { timeoutSeconds: 80, ...options })
  open.push(opened)
  return opened
}

const catchRejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    (value) => value,
    (error: unknown) => error
  )

beforeAll(async () => {
  shared = await testDatabase()
  await shared.query('CREATE TABLE rows (id int PRIMARY KEY, value int NOT NULL)')
})

afterAll(async () => {
  await Promise.all(open.map((each) => each.close()))
  await shared.drop()
})

describe('PostgresDatabase', () => {
  it('runs one statement, and returns its rows and their number', async () => {
    const result = await database().query({ name: 'sum', text: 'SELECT $1::int + 1 AS sum' }, [1])
    expect(result).toEqual({ rows: [{ sum: 2 }], rowCount: 1, isRepeat: false })
  })

  it.each([true, false])(
    'commits a transaction whose statements are sent together, on a pool with pipeline %s',
    async (pipeline) => {
      const pool = new pg.Pool({ connectionString: shared.url, pipeline })
      const id = pipeline ? 1 : 2
      await new PostgresDatabase(pool).transaction(async (query) => {
        await Promise.all([
          query({ text: 'INSERT INTO rows VALUES ($1, 1)' }, [id]),
          query({ text: 'UPDATE rows SET value = 5 WHERE id = $1' }, [id])
        ])
      })
      expect(await shared.query('SELECT value FROM rows WHERE id = $1', [id])).toEqual([{ value: 5 }])
      await pool.end()
    }
  )

  it('rolls a refused transaction back, throws the refusal unchanged, and keeps the connection', async () => {
    const db = database({ poolSize: 1 })
    const pid = async () => (await db.query({ text: 'SELECT pg_backend_pid() AS pid' })).rows
    const before = await pid()
    const refusal = new Error('refused')
    const work = db.transaction(
      async (query) => {
        await query({ text: 'INSERT INTO rows VALUES (700, 1)' })
        throw refusal
      },
      { isRepeatable: true }
    )
    expect(await catchRejection(work)).toBe(refusal)
    expect(await pid()).toEqual(before)
    expect((await db.query({ text: 'SELECT 1 FROM rows WHERE id = 700' })).rowCount).toBe(0)
  })

  it('sends nothing for a branch of a transaction that continues after a refusal', async () => {
    const db = database({ poolSize: 1 })
    let isOver = false
    const work = db.transaction((query) => {
      const branch = async (): Promise<void> => {
        for (let id = 800; !isOver; id += 1) await query({ text: 'INSERT INTO rows VALUES ($1, 1)' }, [id])
      }
      const refuse = async (): Promise<never> => {
        await query({ text: 'SELECT 1' })
        throw new Error('refused')
      }
      return Promise.all([branch(), refuse()])
    })
    expect(await catchRejection(work)).toMatchObject({ message: 'refused' })
    for (let round = 0; round < 5; round += 1) await db.query({ text: 'SELECT 1' })
    isOver = true
    expect((await db.query({ text: 'SELECT 1 FROM rows WHERE id >= 800 AND id < 1000' })).rowCount).toBe(0)
  })

  // After a failure, the connection returns 25P02 for all other statements, and one of these may be noticed first.
  it('reports the first failure of statements that are sent together', async () => {
    const db = database()
    const later = async (promise: Promise<unknown>): Promise<unknown> => promise.finally(() => Promise.resolve())
    const work = db.transaction((query) =>
      Promise.all([later(query({ text: 'SELECT 1 / 0' })), query({ text: 'SELECT 1' })])
    )
    expect(getPostgresCode(await catchRejection(work))).toBe('22012')
  })

  it('fails a transaction that PostgreSQL rolls back, although its work ignored the failed statement', async () => {
    const work = database().transaction(async (query) => {
      await query({ text: 'INSERT INTO rows VALUES (800, 1)' })
      await query({ text: 'SELECT 1 / 0' }).catch(() => undefined)
    })
    expect(getPostgresCode(await catchRejection(work))).toBe('22012')
    expect(await shared.query('SELECT 1 FROM rows WHERE id = 800')).toEqual([])
  })

  it('retries after a deadlock', async () => {
    await shared.query('INSERT INTO rows VALUES (10, 0), (11, 0)')
    const db = database()
    const bothLocked = meeting(2)
    const raise = (first: number, second: number): Promise<void> =>
      db.transaction(async (query) => {
        await query({ text: 'UPDATE rows SET value = value + 1 WHERE id = $1' }, [first])
        await bothLocked()
        await query({ text: 'UPDATE rows SET value = value + 1 WHERE id = $1' }, [second])
      })
    await Promise.all([raise(10, 11), raise(11, 10)])
    expect(await shared.query('SELECT value FROM rows WHERE id IN (10, 11)')).toEqual([{ value: 2 }, { value: 2 }])
    expect(db.stats.retriesByCode).toEqual({ '40P01': 1 })
  })

  it('retries a transaction only for the given codes', async () => {
    const db = database()
    let attempts = 0
    const insert = (repeatOn: string[]): Promise<unknown> =>
      db.transaction(
        async (query) => {
          attempts += 1
          await query({ text: 'INSERT INTO rows VALUES ($1, 0)' }, [attempts % 2 === 1 ? 10 : 20 + attempts])
        },
        { repeatOn }
      )
    await insert(['23505'])
    expect(attempts).toBe(2)
    expect(getPostgresCode(await catchRejection(insert([])))).toBe('23505')
    expect(attempts).toBe(3)
  })

  it('refuses calls beyond the queue limit immediately, and serves the queued ones', async () => {
    const db = database({ poolSize: 1, maxWaiting: 3 })
    const calls = Array.from({ length: 6 }, () => catchRejection(db.query({ text: 'SELECT 1 AS one' })))
    const codes = (await Promise.all(calls)).map((answer) => (answer as { code?: string }).code ?? 'answered')
    expect(codes).toEqual(['answered', 'answered', 'answered', 'ERR_BUSY', 'ERR_BUSY', 'ERR_BUSY'])
    expect(db.stats).toMatchObject({ total: 1, waiting: 0 })
  })

  it('times out, closes the connection, and continues to work', async () => {
    const db = database({ poolSize: 1, timeoutSeconds: 0.5, prepare: false })
    const error = await catchRejection(db.query({ text: 'SELECT pg_sleep(3600)' }, [], { isRepeatable: true }))
    expect(error).toMatchObject({ code: 'ERR_STORE', cause: { message: 'PostgreSQL did not answer in time' } })
    const patient = database()
    expect((await patient.query({ text: 'SELECT 1 AS one' })).rows).toEqual([{ one: 1 }])
    await until(() => db.stats.total === 0)
  })

  it('retries once after a lost connection, if that is safe', async () => {
    const db = database({ poolSize: 1 })
    const kill = 'SELECT pg_terminate_backend(pg_backend_pid())'
    const once = `${kill} WHERE nextval('attempts') = 1`
    await shared.query('CREATE SEQUENCE attempts')
    expect(await db.query({ text: once }, [], { isRepeatable: true })).toMatchObject({ rowCount: 0, isRepeat: true })
    expect(getPostgresCode(await catchRejection(db.query({ text: kill }, [], { isRepeatable: true })))).toBe('57P01')
    expect(db.stats.retriesByCode).toEqual({ '57P01': 2 })
    expect(getPostgresCode(await catchRejection(db.query({ text: kill })))).toBe('57P01')
    expect(db.stats.retriesByCode).toEqual({ '57P01': 2 })
  })

  it('drops every connection to a server that became read-only', async () => {
    const db = database({ poolSize: 2 })
    const write = { text: 'INSERT INTO rows VALUES ((random() * 1e9)::int + 100, 0)' }
    const together = meeting(2)
    // Both open connections become read-only, as on a server that is no longer the primary.
    const readOnly = (): Promise<unknown> =>
      db.transaction(async (query) => {
        await query({ text: 'SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY' })
        await together()
      })
    await Promise.all([readOnly(), readOnly()])
    await db.query(write)
    await Promise.all([db.query(write), db.query(write)])
    expect(db.stats.retriesByCode).toEqual({ '25006': 1 })
    await db.query({ text: 'SELECT 1' })
  })
})

/** Returns a barrier that opens when this many callers wait. */
function meeting(size: number): () => Promise<void> {
  let come = 0
  let open!: () => void
  const all = new Promise<void>((resolve) => {
    open = resolve
  })
  return () => {
    come += 1
    if (come === size) open()
    return all
  }
}
