import { describe, expect, it } from '@jest/globals'
import { postgresDialect, sqliteDialect, type Dialect } from '../../src/stores/sql/dialect.js'
import type { SqlQuery } from '../../src/stores/sql/query.js'
import * as sessionVerbs from '../../src/stores/sql/session-verbs.js'
import { createSqlStore, type SqlEngine } from '../../src/stores/sql/sql-store.js'
import * as storeVerbs from '../../src/stores/sql/store-verbs.js'
import { createRotation, createSession, createUse } from '../../src/testing/store-case.js'

describe('a store in SQL', () => {
  // A full table evicts sessions and refuses challenges, which an outage must not do.
  it('counts as not full while the sizes of its tables cannot be read', async () => {
    const calls: [unknown, unknown][] = []
    const run = async (verb: unknown, ...args: unknown[]): Promise<unknown> => {
      if (verb === storeVerbs.findFullTables) throw new Error('unavailable')
      calls.push([verb, args[1]])
      return undefined
    }
    const engine = { bounds: {}, sizeSeconds: 600, sweepRows: 1, quotas: {}, close: async () => undefined }
    // The store uses nothing else of an engine for these verbs.
    const store = createSqlStore({ ...engine, run } as unknown as SqlEngine)
    await store.createSession(createSession('a'))
    await store.consumeChallenge(createUse())
    const used = calls.filter(([verb]) =>
      [sessionVerbs.createSession, storeVerbs.consumeChallenge].includes(verb as never)
    )
    expect(used.map(([, isFull]) => isFull)).toEqual([false, false])
    await store.close()
  })

  it.each<[string, Dialect, boolean]>([
    ['SQLite writes no indexed column, which is expensive there', sqliteDialect, false],
    ['PostgreSQL sends one statement for all cases', postgresDialect, true]
  ])('rotates a token for the second time in a day: %s', async (_what, dialect, isIndexed) => {
    const texts: string[] = []
    const query: SqlQuery = async ({ text }) => {
      texts.push(text)
      return { rows: [], rowCount: 1, isRepeat: false }
    }
    await sessionVerbs.rotateRefreshToken.run(Object.assign(query, { dialect }), createRotation('a', 0, 1))
    expect(texts.map((text) => /SET[^;]*refreshed_day = /.test(text.replace(/WHERE.*/s, '')))).toEqual([isIndexed])
  })
})
