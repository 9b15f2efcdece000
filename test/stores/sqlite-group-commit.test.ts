import { describe, expect, it } from '@jest/globals'
import { GroupCommit, type Request } from '../../src/stores/sqlite/group-commit.js'
import { prepareTables } from '../../src/stores/sqlite/prepare-tables.js'
import { SessionVerbs } from '../../src/stores/sqlite/session-database.js'
import { openConnection, type SqlConnection } from '../../src/stores/sqlite/sqlite-engine.js'
import { sqliteCode } from '../../src/stores/sqlite/sqlite-error.js'
import { SweepClock } from '../../src/stores/sweep-clock.js'
import { hashOf, rotationOf, service, sessionOf, useOf } from '../../src/testing/store-case.js'
import { faultyConnection, type FaultyConnection } from '../support/faulty-connection.js'
import { engines } from '../support/sqlite-stores.js'

/** More than any group here executes. */
const MOST_STATEMENTS = 60
const sessionId = 'session-a'

/** The outcome of each verb of a group, in their order: what it answered, or the code or text of its error. */
function runGroup(connection: SqlConnection, ...calls: [verb: string, ...args: unknown[]][]): unknown[] {
  const outcomes: unknown[] = []
  const verbs = new SessionVerbs(connection, { maxSessions: 99, maxChallengeUses: 99 }, new SweepClock())
  const group = new GroupCommit(connection, verbs, {
    succeed: (id, result) => (outcomes[id] = result),
    fail: (id, error) => (outcomes[id] = sqliteCode(error) || (error as Error).message)
  })
  calls.forEach((call, id) => {
    group.add([id, ...call] as unknown as Request, performance.now())
  })
  group.run(() => undefined)
  return outcomes
}

const create = (name: string, details = {}): [string, unknown] => ['createSession', sessionOf(name, details)]
const rotate = (from: number, to: number): [string, unknown] => ['rotateRefreshToken', rotationOf('a', from, to)]

describe.each(engines)('a group of verbs on a database by %s', (engine) => {
  const openMemory = (): SqlConnection => {
    const connection = openConnection(':memory:', engine, { synchronous: 'FULL', busyMilliseconds: 0 })
    prepareTables(connection)
    return connection
  }
  const hashIn = (connection: SqlConnection): unknown =>
    connection.prepare('SELECT refresh_token_hash AS hash FROM did_auth_sessions').get()?.hash

  it('is one transaction: it begins and commits once', () => {
    const connection = openMemory()
    const texts: string[] = []
    const noted: SqlConnection = {
      ...connection,
      exec: (text) => connection.exec(text),
      prepare(text) {
        const statement = connection.prepare(text)
        if (!/^(BEGIN|COMMIT)/.test(text)) return statement
        return {
          get: () => undefined,
          all: () => [],
          run() {
            texts.push(text)
            return statement.run()
          }
        }
      }
    }
    expect(runGroup(noted, create('a'), rotate(0, 1), ['consumeChallenge', useOf()], ['ping'])).toEqual([
      0,
      'rotate',
      'consumed',
      1
    ])
    expect(texts).toEqual(['BEGIN IMMEDIATE', 'COMMIT'])
  })

  it('undoes a verb that fails, and does the others in their order', () => {
    const connection = openMemory()
    const outcomes = runGroup(connection, create('a'), create('a'), rotate(0, 1), ['noSuchVerb'], rotate(1, 2))
    expect([outcomes[0], outcomes[2], outcomes[4]]).toEqual([0, 'rotate', 'rotate'])
    expect(outcomes[1]).toMatch(/^SQLITE_CONSTRAINT/)
    expect(outcomes[3]).toContain('no such verb')
    expect(hashIn(connection)).toBe(hashOf('a', 2))
  })

  describe.each(['before', 'after'] as const)('whose n-th statement fails %s it is done', (when) => {
    const failingAt = (statements: number): FaultyConnection => {
      const connection = faultyConnection(openMemory())
      runGroup(connection, create('a'))
      connection.failAt(statements, when)
      return connection
    }

    it('leaves a refresh done or not done, and the next attempt finds which', () => {
      const seen = new Set<string>()
      for (let statements = 0; statements < MOST_STATEMENTS; statements += 1) {
        const connection = failingAt(statements)
        const [outcome] = runGroup(connection, rotate(0, 1))
        if (!connection.hasFailed()) break
        expect(outcome).toBe('disk I/O error')
        const isDone = hashIn(connection) === hashOf('a', 1)
        seen.add(isDone ? 'done' : 'not done')
        expect(runGroup(connection, rotate(0, 1))).toEqual([isDone ? 'repeated' : 'rotate'])
      }
      // What is done is a commit that was reported as failed.
      expect([...seen]).toEqual(when === 'after' ? ['not done', 'done'] : ['not done'])
    })

    it('costs a larger group nothing, because each verb is done again by itself', () => {
      const seen: unknown[][] = []
      for (let statements = 0; statements < MOST_STATEMENTS; statements += 1) {
        const connection = failingAt(statements)
        const outcomes = runGroup(connection, create('b'), create('c'), rotate(0, 1))
        if (!connection.hasFailed()) break
        seen.push(outcomes)
      }
      expect(seen.length).toBeGreaterThan(6)
      expect(seen[0]).toEqual(['disk I/O error', 'disk I/O error', 'disk I/O error'])
      const done = [0, 0, 'rotate']
      expect(seen.slice(1, -1)).toEqual(Array.from({ length: seen.length - 2 }, () => done))
      // The last is the commit: where it was done, what it did is found done.
      const found = [
        expect.stringMatching(/^SQLITE_CONSTRAINT/),
        expect.stringMatching(/^SQLITE_CONSTRAINT/),
        'repeated'
      ]
      expect(seen.at(-1)).toEqual(when === 'after' ? found : done)
    })
  })

  it('fails with SQLITE_FULL on a full disk and changes nothing, and works again when there is space', () => {
    const connection = openMemory()
    runGroup(connection, create('a'))
    const pages = Number(connection.prepare('PRAGMA page_count').get()?.page_count)
    connection.exec(`PRAGMA max_page_count = ${String(pages)}`)
    const claims = { tokenClaims: { text: 'x'.repeat(9_000) } }
    expect(runGroup(connection, create('b', claims), ['ping'], create('c', claims))).toEqual([
      'SQLITE_FULL',
      1,
      'SQLITE_FULL'
    ])
    expect(
      new SessionVerbs(connection, { maxSessions: 9, maxChallengeUses: 9 }, new SweepClock()).run('findSession', [
        service,
        sessionId
      ])
    ).toMatchObject({ sessionId })
    connection.exec('PRAGMA max_page_count = 100000')
    expect(runGroup(connection, create('b', claims), rotate(0, 1))).toEqual([0, 'rotate'])
  })

  it('fails with SQLITE_READONLY where the file can only be read, pings too', () => {
    const connection = openMemory()
    connection.exec('PRAGMA query_only = on')
    expect(runGroup(connection, create('a'), ['ping'])).toEqual(['SQLITE_READONLY', 'SQLITE_READONLY'])
  })
})
