import { describe, expect, it } from '@jest/globals'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { postgresStore } from '../../src/stores/postgres/index.js'
import { postgresDialect } from '../../src/stores/sql/dialect.js'
import { sessionStatements } from '../../src/stores/sql/session-verbs.js'
import { storeStatements } from '../../src/stores/sql/store-verbs.js'
import { createLaterSteps, createTables } from '../../src/stores/sql/tables.js'
import { unqualifiedFunctions, unqualifiedFunctionsIn } from '../support/fixtures/unqualified-functions.js'

describe('postgresStore', () => {
  it('refuses a value that is neither a URL nor a pool', () => {
    expect(() => postgresStore(undefined as never)).toThrow(
      'needs a URL or a Pool of the package pg, but received undefined'
    )
    expect(() => postgresStore({ host: 'db' } as never)).toThrow('but received object')
  })
})

describe('postgresStore reports in one line:', () => {
  it.each([
    '',
    'localhost',
    'mysql://user:wrong-horse-battery@host/app',
    'postgres://user:wrong-horse-battery@host:port/'
  ])('an invalid URL: %s', (url) => {
    let error: unknown
    try {
      postgresStore(url)
    } catch (thrown) {
      error = thrown
    }
    const line = 'express-did-auth: a PostgreSQL store needs a URL such as postgres://user@host/database'
    expect(error).toMatchObject({ name: 'TypeError', message: line })
    expect(inspect(error, { depth: Infinity, showHidden: true })).not.toContain('wrong-horse-battery')
  })
})

describe('the statements of the PostgreSQL store', () => {
  const inPostgres = { dialect: postgresDialect }
  it('qualify every function with its schema', () => {
    const folder = fileURLToPath(new URL('../../src/stores/postgres', import.meta.url))
    expect(readdirSync(folder).flatMap((file) => unqualifiedFunctionsIn(`${folder}/${file}`))).toEqual([])
    const shared = [
      sessionStatements(inPostgres),
      storeStatements(inPostgres),
      createTables(postgresDialect),
      createLaterSteps(postgresDialect)
    ]
    const texts = JSON.stringify(shared).match(/"(?:[^"\\]|\\.)*"/g) ?? []
    expect(texts.length).toBeGreaterThan(20)
    expect(texts.flatMap((text) => unqualifiedFunctions(text))).toEqual([])
  })
})
