import { describe, expect, it } from '@jest/globals'
import { sqliteDialect, type Dialect } from '../../src/stores/sql/dialect.js'
import { collectVerbs, verb, type SqlVerb, type StoreQuery as SqlQuery } from '../../src/stores/sql/query.js'
import * as sessionVerbs from '../../src/stores/sql/session-verbs.js'
import * as storeVerbs from '../../src/stores/sql/store-verbs.js'
import { GroupCommit, type ServedVerbs } from '../../src/stores/sqlite/serve-sqlite.js'
import { createLaterSteps, createTables } from '../../src/stores/sql/tables.js'
import { prepareTables } from '../../src/stores/sqlite/prepare-tables.js'
import { openConnection, type SqliteConnection, type SqliteStatement } from '../../src/stores/sqlite/sqlite-engine.js'
import type { Request } from '../../src/stores/sqlite/sqlite-thread.js'
import { hashToken, createRotation, createSession, createUse } from '../../src/testing/store-case.js'
import { engine } from '../support/servers/sqlite-stores.js'
import { createThrowing } from '../support/fixtures/refusal.js'

/** Maximum number of statements, above that of every group in this file. */
const MOST_STATEMENTS = 60

type Call = [verb: string, ...args: unknown[]]

/** Returns the outcome of each verb of a group in order: its result, or the code or text of its error. */
async function runGroup(
  connection: SqliteConnection,
  calls: Call[],
  hooks: Partial<ServedVerbs<Dialect>> = {},
  verbs = collectVerbs<Dialect>(sessionVerbs, storeVerbs)
): Promise<unknown[]> {
  const outcomes: unknown[] = []
  const group = new GroupCommit(connection, { verbs, dialect: sqliteDialect, ...hooks }, ([id, result, failure]) => {
    // Throws if a transaction is still open.
    if (failure === undefined) connection.exec('BEGIN; ROLLBACK')
    outcomes[id] = failure === undefined ? result : failure.code || failure.message
  })
  calls.forEach((call, id) => group.add([id, ...call] as unknown as Request, performance.now()))
  await group.run(() => undefined)
  return outcomes
}

const create = (name: string, details = {}): Call => ['createSession', createSession(name, details), false]
const rotate = (from: number, to: number): Call => ['rotateRefreshToken', createRotation('a', from, to)]

describe(`GroupCommit on a database by ${engine}`, () => {
  const openMemory = (): SqliteConnection => {
    const connection = openConnection(':memory:', engine, { synchronous: 'FULL', busyMilliseconds: 0 })
    prepareTables(connection, createTables(sqliteDialect), 'did_auth_numbers', createLaterSteps(sqliteDialect))
    return connection
  }
  const hashIn = (connection: SqliteConnection): string => {
    const { hash } = connection.prepare('SELECT hex(token_hash) AS hash FROM did_auth_sessions').get()!
    return Buffer.from(String(hash), 'hex').toString('base64url')
  }
  const sessionsIn = (connection: SqliteConnection): unknown =>
    connection
      .prepare('SELECT session_id FROM did_auth_sessions ORDER BY number')
      .all()
      .map((row) => row.session_id)

  it('commits nothing of a verb after a failure that rolled back the whole transaction', async () => {
    const connection = openMemory()
    connection.exec('CREATE TABLE notes (note TEXT NOT NULL)')
    const notes = ["'before'", 'NULL', "'after'"].map((note) => ({ text: `INSERT INTO notes VALUES (${note})` }))
    const verbs = {
      // A full disk has the same effect: the transaction ends, and the statement fails.
      write: verb('write', (query: SqlQuery) => {
        const [before, failing, after] = notes.map((note) => () => query(note))
        return Promise.all([before!(), query({ text: 'ROLLBACK' }), failing!(), after!()])
      })
    }
    const [outcome] = await runGroup(connection, [['write']], {}, collectVerbs(verbs))
    expect(outcome).toMatch(/CONSTRAINT/)
    expect(connection.prepare('SELECT note FROM notes').all()).toEqual([])
  })

  it('writes nothing for a verb that refuses while its branches are running', async () => {
    const connection = openMemory()
    connection.exec('CREATE TABLE notes (note TEXT NOT NULL)')
    const branch = async (query: SqlQuery, rounds: number): Promise<void> => {
      for (let round = 0; round < rounds; round += 1) await query({ text: "INSERT INTO notes VALUES ('branch')" })
    }
    const refuse = (query: SqlQuery) =>
      Promise.all([branch(query, 50), branch(query, 2).then(() => Promise.reject(new Error('refused')))])
    const note = (query: SqlQuery) => query({ text: "INSERT INTO notes VALUES ('next verb')" })
    const outcomes = await runGroup(
      connection,
      [['refuse'], ['note']],
      {},
      collectVerbs({ refuse: verb('write', refuse), note: verb('write', note) })
    )
    await new Promise(setImmediate)
    expect(outcomes[0]).toBe('refused')
    expect(connection.prepare('SELECT note FROM notes').all()).toEqual([{ note: 'next verb' }])
  })

  it('commits one transaction: it begins and commits once', async () => {
    const connection = openMemory()
    const texts: string[] = []
    const noted: SqliteConnection = {
      exec: (text) => connection.exec(text),
      close: () => connection.close(),
      prepare(text) {
        const statement = connection.prepare(text)
        return {
          get: () => undefined,
          all: (...values) => statement.all(...values),
          run(...values) {
            if (/^(BEGIN|COMMIT)/.test(text)) texts.push(text)
            return statement.run(...values)
          }
        }
      }
    }
    const outcomes = await runGroup(noted, [
      create('a'),
      rotate(0, 1),
      ['consumeChallenge', createUse(), false],
      ['ping']
    ])
    expect(outcomes).toEqual([0, 'rotate', 'consumed', undefined])
    expect(texts).toEqual(['BEGIN IMMEDIATE', 'COMMIT'])
  })

  it('rolls back a failing verb, and runs the others in order', async () => {
    const connection = openMemory()
    const another = create('a', { refreshTokenHash: hashToken('another', 0) })
    const outcomes = await runGroup(connection, [create('a'), another, rotate(0, 1), ['noSuchVerb'], rotate(1, 2)])
    expect(outcomes).toEqual([
      0,
      'a session with this id already exists',
      'rotate',
      'express-did-auth: no such verb: noSuchVerb',
      'rotate'
    ])
    expect(hashIn(connection)).toBe(hashToken('a', 2))
  })

  it('retries a verb once if the cause of its failure was removed', async () => {
    const connection = openMemory()
    await runGroup(connection, [create('a')])
    const another = create('a', { refreshTokenHash: hashToken('another', 0) })
    const causes: SqlVerb<Dialect>[] = []
    const recover = (verb: SqlVerb<Dialect>): boolean => {
      causes.push(verb)
      if (causes.length === 1) connection.exec('DELETE FROM did_auth_sessions')
      return true
    }
    expect(await runGroup(connection, [another, create('b')], { recover })).toEqual([0, 0])
    expect(causes).toEqual([sessionVerbs.createSession])
    const blocked = create('a', { refreshTokenHash: hashToken('another', 1) })
    expect(await runGroup(connection, [blocked], { recover: () => true })).toEqual([
      'a session with this id already exists'
    ])
  })

  it('fails as a whole if it cannot begin, and works when it can', async () => {
    const connection = openMemory()
    const beforeGroup = createThrowing(new Error('moved'))
    expect(await runGroup(connection, [create('a'), create('b')], { beforeGroup })).toEqual(['moved', 'moved'])
    expect(sessionsIn(connection)).toEqual([])
    expect(await runGroup(connection, [create('a')])).toEqual([0])
  })

  describe.each(['before', 'after'] as const)('if the n-th statement fails %s its execution', (when) => {
    const failingAt = async (statements: number): Promise<FaultyConnection> => {
      const connection = faultyConnection(openMemory())
      await runGroup(connection, [create('a')])
      connection.failAt(statements, when)
      return connection
    }

    it('executes a refresh or not, and the next attempt reports which', async () => {
      const seen = new Set<string>()
      for (let statements = 0; statements < MOST_STATEMENTS; statements += 1) {
        const connection = await failingAt(statements)
        const [outcome] = await runGroup(connection, [rotate(0, 1)])
        if (!connection.hasFailed()) break
        expect(outcome).toBe('disk I/O error')
        const isDone = hashIn(connection) === hashToken('a', 1)
        seen.add(isDone ? 'done' : 'not done')
        expect(await runGroup(connection, [rotate(0, 1)])).toEqual([isDone ? 'repeated' : 'rotate'])
      }
      // A verb is executed and rejected only if its commit succeeded and was reported as failed.
      expect([...seen]).toEqual(when === 'after' ? ['not done', 'done'] : ['not done'])
    })

    it('executes and acknowledges each verb of a larger group, or rejects it without effect', async () => {
      let groups = 0
      for (let statements = 0; statements < MOST_STATEMENTS; statements += 1) {
        const connection = await failingAt(statements)
        const outcomes = await runGroup(connection, [create('b'), create('c')])
        if (!connection.hasFailed()) break
        groups += 1
        const storedSessions = sessionsIn(connection)
        for (const [index, name] of ['b', 'c'].entries()) {
          if (outcomes[index] === 0) expect(storedSessions).toContain(`session-${name}`)
          // A commit may be executed and reported as failed. The next attempt then finds the session, and returns 0.
          else expect(storedSessions).not.toContain(`session-${name}`)
        }
      }
      expect(groups).toBeGreaterThan(8)
    })
  })

  it('fails with SQLITE_FULL on a full disk and changes nothing, and works when space is free', async () => {
    const connection = openMemory()
    await runGroup(connection, [create('a')])
    const pages = Number(connection.prepare('PRAGMA page_count').get()?.page_count)
    connection.exec(`PRAGMA max_page_count = ${String(pages)}`)
    const claims = { tokenClaims: { text: 'x'.repeat(9_000) } }
    const outcomes = await runGroup(connection, [create('b', claims), ['ping'], create('c', claims)])
    expect(outcomes).toEqual(['SQLITE_FULL', undefined, 'SQLITE_FULL'])
    expect(sessionsIn(connection)).toEqual(['session-a'])
    connection.exec('PRAGMA max_page_count = 100000')
    expect(await runGroup(connection, [create('b', claims), rotate(0, 1)])).toEqual([0, 'rotate'])
  })

  it('fails with SQLITE_READONLY for a read-only file, also on ping', async () => {
    const connection = openMemory()
    connection.exec('PRAGMA query_only = on')
    expect(await runGroup(connection, [create('a'), ['ping']])).toEqual(['SQLITE_READONLY', 'SQLITE_READONLY'])
  })
})

/** Connection whose statements can fail, to interrupt a transaction at any point. */
interface FaultyConnection extends SqliteConnection {
  /** Lets the next `statements` succeed, and the one after them fail `before` or `after` its execution. */
  failAt(statements: number, when: 'before' | 'after'): void
  /** Whether the failure happened; later statements succeed. */
  hasFailed(): boolean
}

/**
 * Wraps a connection so that a prepared statement fails. All verbs use prepared statements, as do `BEGIN` and `COMMIT`.
 */
function faultyConnection(connection: SqliteConnection): FaultyConnection {
  let callsLeft = Infinity
  let when: 'before' | 'after' = 'before'
  const counted = <T>(run: () => T): T => {
    callsLeft -= 1
    if (callsLeft !== -1) return run()
    callsLeft = Infinity
    if (when === 'after') run()
    throw new Error('disk I/O error')
  }
  return {
    prepare(text): SqliteStatement {
      const statement = connection.prepare(text)
      return {
        get: (...values) => counted(() => statement.get(...values)),
        all: (...values) => counted(() => statement.all(...values)),
        run: (...values) => counted(() => statement.run(...values))
      }
    },
    exec: (text) => connection.exec(text),
    close: () => connection.close(),
    failAt: (statements, at) => {
      callsLeft = statements
      when = at
    },
    hasFailed: () => callsLeft === Infinity
  }
}
