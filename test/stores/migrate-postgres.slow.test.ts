import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { migrateStore, postgresStore } from '../../src/stores/postgres/index.js'
import { migratePostgres, type PostgresMigration } from '../../src/stores/postgres/migrate-postgres.js'
import { PostgresDatabase } from '../../src/stores/postgres/postgres-database.js'
import { createSession, did, service, START_SECONDS } from '../../src/testing/store-case.js'
import { testDatabase, type TestDatabase } from '../support/engines/postgres-server.js'
import { until } from '../support/fixtures/until.js'
import { postgresDialect } from '../../src/stores/sql/dialect.js'
import type { SqlQuery } from '../../src/stores/sql/query.js'
import { createQuotaTable } from '../../src/stores/postgres/quota-table.js'
import { findFullTables } from '../../src/stores/sql/store-verbs.js'

const STEPS: readonly PostgresMigration[] = [
  { statements: ['CREATE TABLE animals (name text)', "INSERT INTO animals VALUES ('cat')"], needsCode: 1 },
  { statements: ['ALTER TABLE animals ADD COLUMN legs int'], needsCode: 1 }
]
const options = { schemaTable: 'animals_schema' }

let server: TestDatabase
let databases: PostgresDatabase[]

beforeEach(async () => {
  server = await testDatabase()
  databases = Array.from({ length: 10 }, () => new PostgresDatabase(server.url, { poolSize: 1, timeoutSeconds: 80 }))
})

afterEach(async () => {
  await Promise.all(databases.map((database) => database.close()))
  await server.drop()
})

const versions = async (): Promise<unknown[]> =>
  (await server.query('SELECT version FROM animals_schema ORDER BY version')).map(({ version }) => version)

describe('migratePostgres', () => {
  it('runs each step once if ten instances start at once', async () => {
    const runs = await Promise.all(databases.map((database) => migratePostgres(database, STEPS, options)))
    expect(await server.query('SELECT * FROM animals')).toEqual([{ name: 'cat', legs: null }])
    expect(await versions()).toEqual([1, 2])
    // `runs` has the statements of each instance. A later instance may have run the first step.
    const texts = STEPS.flatMap(({ statements }) => statements)
    expect(
      runs
        .flat()
        .filter((text) => texts.includes(text))
        .sort()
    ).toEqual([...texts].sort())
  })

  it("runs nothing on a connection that waited for another instance's migration", async () => {
    const [slow, fast] = databases as [PostgresDatabase, PostgresDatabase]
    // The connection has prepared the catalog query of a migration.
    await migratePostgres(slow, [{ statements: ['CREATE TABLE plants (name text)'], needsCode: 1 }], {
      schemaTable: 'plants_schema'
    })
    const waiting = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    const texts = await migratePostgres(fast, STEPS, { ...options, mode: 'print' })
    let run: Promise<unknown> = Promise.resolve()
    await fast.transaction(async (query) => {
      await query({ text: 'SELECT pg_advisory_xact_lock(hashtextextended($1, 0))' }, [options.schemaTable])
      run = migratePostgres(slow, STEPS, options)
      await until(async () => (await server.query(waiting)).length > 0)
      for (const text of texts) await query({ text })
    })
    expect(await run).toEqual([])
  })

  it('continues after the last step of an older version', async () => {
    await migratePostgres(databases[0]!, STEPS.slice(0, 1), options)
    const [, add] = STEPS
    expect(await migratePostgres(databases[1]!, STEPS, options)).toEqual(expect.arrayContaining([...add!.statements]))
    expect(await migratePostgres(databases[1]!, STEPS, options)).toEqual([])
  })

  it('rolls back a step that fails', async () => {
    const broken = { statements: ['CREATE TABLE plants (name text)', 'SELECT 1/0'], needsCode: 1 }
    await expect(migratePostgres(databases[0]!, [...STEPS, broken], options)).rejects.toMatchObject({
      cause: { code: '22012' }
    })
    expect(await versions()).toEqual([1, 2])
    expect(await server.query("SELECT to_regclass('plants') AS plants")).toEqual([{ plants: null }])
  })

  it('prints the statements, and runs nothing', async () => {
    const printed = await migratePostgres(databases[0]!, STEPS, { ...options, mode: 'print' })
    expect(await server.query("SELECT to_regclass('animals') AS animals")).toEqual([{ animals: null }])
    await server.query(printed.join(';\n'))
    expect(await migratePostgres(databases[0]!, STEPS, { ...options, mode: 'check' })).toEqual([])
  })

  it('refuses missing or older tables in mode check', async () => {
    const check = (): Promise<unknown> => migratePostgres(databases[0]!, STEPS, { ...options, mode: 'check' })
    await expect(check()).rejects.toMatchObject({
      code: 'ERR_CONFIG',
      message:
        'express-did-auth: the tables of animals_schema are missing, and version 2 is needed: run `npx express-did-auth-servers migrate`'
    })
    await migratePostgres(databases[0]!, STEPS.slice(0, 1), options)
    await expect(check()).rejects.toMatchObject({
      code: 'ERR_CONFIG',
      message: expect.stringContaining('have version 1,')
    })
  })

  it('accepts newer tables, unless they require newer code', async () => {
    await migratePostgres(databases[0]!, STEPS, options)
    await migratePostgres(databases[0]!, STEPS.slice(0, 1), options)
    const drop = { statements: ['ALTER TABLE animals DROP COLUMN name'], needsCode: 3 }
    await migratePostgres(databases[0]!, [...STEPS, drop], options)
    await expect(migratePostgres(databases[0]!, STEPS, { ...options, mode: 'check' })).rejects.toMatchObject({
      code: 'ERR_CONFIG',
      message:
        'express-did-auth: the tables of animals_schema have version 3, which needs code for version 3; this code knows version 2: update express-did-auth'
    })
  })
})

describe('migrateStore', () => {
  it('adds ended sessions and descriptions to a database of version 1, whose sessions stay', async () => {
    const store = postgresStore(server.url)
    await store.createSession(createSession('a'))
    const drop = 'DROP TABLE did_auth_ended_sessions; ALTER TABLE did_auth_sessions DROP COLUMN description'
    await server.query(`${drop}; DELETE FROM did_auth_schema WHERE version > 1`)
    // Code of version 1 ignores the table, and this code needs it.
    await expect(migrateStore(server.url, { mode: 'check' })).rejects.toMatchObject({
      code: 'ERR_CONFIG',
      message: expect.stringContaining('have version 1, and version 3 is needed')
    })
    const newer = postgresStore(server.url)
    expect(await newer.endSession(service, 'session-a', 'loggedOut', START_SECONDS, START_SECONDS + 660)).toBe(true)
    expect(await newer.listEndedSessions!(service, START_SECONDS, 9)).toHaveLength(1)
    await newer.createSession(createSession('b', { description: 'Chrome on Windows' }))
    const listed = await newer.listSessions(service, did, START_SECONDS)
    expect(listed.map(({ description }) => description)).toEqual(['Chrome on Windows'])
    const versions = await server.query('SELECT version, needs_code FROM did_auth_schema ORDER BY version')
    expect(versions).toEqual([1, 2, 3].map((version) => ({ version, needs_code: 1 })))
    await Promise.all([store.close(), newer.close()])
  })
})

describe('the statements of the PostgreSQL store', () => {
  const inPostgres = { dialect: postgresDialect }
  it('call no function that another role adds to the schema', async () => {
    await server.query(
      `CREATE FUNCTION public.hashtextextended(text, int) RETURNS bigint LANGUAGE plpgsql AS
        $$ BEGIN RAISE 'run as %', current_user; END $$`
    )
    // Operators are also resolved by schema: for types without a built-in one, PostgreSQL would call another role's.
    for (const [left, right] of [
      ['oid', 'regclass'],
      ['real', 'bigint'],
      ['bigint', 'real']
    ] as const) {
      for (const operator of ['=', '>=', '<=', '>', '<', '-', '+']) {
        const name = `hostile_${left}_${right}_${String(operator.charCodeAt(0))}${String(operator.length)}`
        await server.query(
          `CREATE FUNCTION public.${name}(${left}, ${right}) RETURNS boolean LANGUAGE plpgsql AS
            $$ BEGIN RAISE 'run as %', current_user; END $$;
          CREATE OPERATOR public.${operator} (LEFTARG = ${left}, RIGHTARG = ${right}, FUNCTION = public.${name})`
        )
      }
    }
    expect(await migrateStore(server.url)).not.toEqual([])
    const database = new PostgresDatabase(server.url)
    const query: SqlQuery = (statement, values) => database.query(statement, values)
    await createQuotaTable(query, 1).trim!(async () => undefined)
    const bounds = { sessions: 9, challengeUses: 9 }
    const full = { sessions: false, challengeUses: false }
    expect(await findFullTables.run(Object.assign(query, inPostgres), bounds)).toEqual(full)
    await database.close()
    const store = postgresStore(server.url)
    await store.createSession(createSession('a'))
    await store.close()
  })
})
