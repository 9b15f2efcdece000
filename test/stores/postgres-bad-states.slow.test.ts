import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import { inspect } from 'node:util'
import {
  migrateStore,
  getPostgresCode,
  postgresStore,
  type PostgresStoreOptions
} from '../../src/stores/postgres/index.js'
import { createSession } from '../../src/testing/store-case.js'
import { runOn, startPostgres, type PostgresEngine } from '../support/engines/postgres-server.js'
import { TEST_TIMEOUT_SECONDS } from '../support/servers/postgres-stores.js'

const PASSWORD = 'correct-horse-battery'
const WRONG = 'wrong-horse-battery'

let engine: PostgresEngine

/** Returns the messages for an operator: of `migrateStore` at the start, and of the cause of a rejected verb. */
async function readLines(url: string, options: PostgresStoreOptions = {}): Promise<{ start: string; verb: string }> {
  const limits = { timeoutSeconds: TEST_TIMEOUT_SECONDS, ...options }
  const mode = options.migrate === false ? 'check' : 'apply'
  const start = await migrateStore(url, { ...limits, mode }).then(() => 'ok', readLine)
  const store = postgresStore(url, limits)
  const verb = await store.createSession(createSession('a')).then(() => 'ok', readLine)
  await store.close()
  return { start, verb }
}

/** Returns the code and message of an error. Expects that a log of the error contains no password. */
function readLine(error: unknown): string {
  const { code, message, cause } = error as Error & { code: string }
  const all = inspect(error, { depth: Infinity, showHidden: true }) + JSON.stringify(error)
  for (const secret of [PASSWORD, WRONG]) expect(all).not.toContain(secret)
  return code === 'ERR_STORE' ? `${code} ${(cause as Error).message}` : `${code} ${message}`
}

beforeAll(async () => {
  engine = await startPostgres({ max_connections: '14' })
  await runOn(engine.url(), `CREATE ROLE checked LOGIN PASSWORD '${PASSWORD}'`)
})

beforeEach(() => runOn(engine.url(), 'CREATE DATABASE app OWNER checked'))

afterEach(() => runOn(engine.url(), 'DROP DATABASE app WITH (FORCE)'))

afterAll(() => engine.remove())

const validUrl = (): string => engine.url('app', `checked:${PASSWORD}`)

describe('postgresStore reports in one line:', () => {
  it('no problem', async () => {
    expect(await readLines(validUrl())).toEqual({ start: 'ok', verb: 'ok' })
  })

  it('a wrong password', async () => {
    const line = 'PostgreSQL refused the password: password authentication failed for user "checked" (28P01)'
    expect(await readLines(engine.url('app', `checked:${WRONG}`))).toEqual({
      start: `ERR_CONFIG express-did-auth: ${line}`,
      verb: `ERR_CONFIG express-did-auth: ${line}`
    })
  })

  it('a missing database', async () => {
    const { start } = await readLines(engine.url('missing', `checked:${PASSWORD}`))
    expect(start).toBe(
      'ERR_CONFIG express-did-auth: PostgreSQL has no such database: database "missing" does not exist (3D000)'
    )
  })

  it('a user without the right to create tables', async () => {
    await runOn(engine.url('app'), 'REVOKE CREATE ON SCHEMA public FROM PUBLIC; ALTER DATABASE app OWNER TO postgres')
    const { start } = await readLines(validUrl())
    expect(start).toMatch(
      /^ERR_CONFIG express-did-auth: PostgreSQL refused the user's access to the tables: .*\(42501\)$/
    )
  })

  it('missing tables, if the store creates none', async () => {
    const line =
      'ERR_CONFIG express-did-auth: the tables of did_auth_schema are missing, and version 3 is needed: run `npx express-did-auth-servers migrate`'
    expect(await readLines(validUrl(), { migrate: false })).toEqual({ start: line, verb: line })
    await migrateStore(validUrl())
    expect(await readLines(validUrl(), { migrate: false })).toEqual({ start: 'ok', verb: 'ok' })
  })

  it('a read-only database, such as a standby', async () => {
    await migrateStore(validUrl())
    await runOn(engine.url(), 'ALTER DATABASE app SET default_transaction_read_only = on')
    const store = postgresStore(validUrl(), { timeoutSeconds: TEST_TIMEOUT_SECONDS })
    const error: unknown = await store.createSession(createSession('a')).catch((reason: unknown) => reason)
    expect(readLine(error)).toMatch(/^ERR_STORE this PostgreSQL server is read-only, as a standby is: cannot execute/)
    expect(getPostgresCode(error)).toBe('25006')
    const ping: unknown = await store.ping().catch((reason: unknown) => reason)
    expect(readLine(ping)).toMatch(/^ERR_STORE this PostgreSQL server is read-only/)
    await runOn(engine.url(), 'ALTER DATABASE app RESET default_transaction_read_only')
    await store.ping()
    await store.createSession(createSession('a'))
    await store.close()
  })

  it('more connections than the server allows', async () => {
    await migrateStore(validUrl())
    const store = postgresStore(validUrl(), { timeoutSeconds: TEST_TIMEOUT_SECONDS, poolSize: 40 })
    const names = Array.from({ length: 40 }, (_, index) => `${index}`)
    const sessions = names.map((name) => createSession(name, { did: `did:example:${name}` }))
    const lines = await Promise.all(sessions.map((session) => store.createSession(session).then(() => 'ok', readLine)))
    const line =
      /^ERR_STORE PostgreSQL has no free connection: the pools together are larger than max_connections: .*\(53300\)$/
    expect(new Set(lines.map((text) => (line.test(text) ? 'refused' : text)))).toEqual(new Set(['ok', 'refused']))
    await store.ping()
    await store.close()
  })
})
