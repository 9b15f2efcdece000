import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { runMigrate } from '../../../servers/tools/migrate.js'
import { readEnv } from '../../../servers/config/read-env.js'
import { Connections } from '../../../servers/content/connections.js'
import { openContentEngine } from '../../../servers/content/engine.js'
import { runCommand } from '../../support/servers/command-line.js'
import { startPostgres, testDatabase, type TestDatabase } from '../../support/engines/postgres-server.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'
import { until } from '../../support/fixtures/until.js'

let database: TestDatabase

beforeEach(async () => {
  database = await testDatabase()
})
afterEach(() => database.drop())

const migrate = (args: string[] = [], url = database.url, lines: string[] = []) =>
  runCommand(runMigrate, args, { DATABASE_URL: url }, lines)

/** Opens all stores as servers do, without the right to create tables. */
async function openAll(): Promise<void> {
  const { path, remove } = temporaryFolder()
  const variables = { DATABASE_URL: database.url, DATABASE_MIGRATE: 'false', DATA_DIR: path }
  const [env, vault] = [readEnv(variables, 'relay', false, 'operate'), readEnv(variables, 'vault', false, 'operate')]
  const connections = await Connections.open(env)
  try {
    for (const serverEnv of [env, vault]) {
      const { sessions, contents, close } = await openContentEngine(serverEnv, connections)
      await sessions.ping()
      await contents.store.probe()
      await close()
    }
  } finally {
    await connections.close()
    remove()
  }
}

describe('the command migrate', () => {
  it('creates the tables of all servers, and does nothing in a second run', async () => {
    await expect(openAll()).rejects.toThrow(
      'Cannot use the database (DATABASE_URL): the tables of did_auth_schema are missing'
    )
    const { code, lines } = await migrate()
    expect(code).toBe(0)
    expect(lines.map((line) => line.replace(/\d+/, 'n'))).toEqual([
      'sessions: ran n statements',
      'relay: ran n statements',
      'vault: ran n statements'
    ])
    await openAll()
    expect((await migrate()).lines).toEqual([
      'sessions: the tables are up to date',
      'relay: the tables are up to date',
      'vault: the tables are up to date'
    ])
  })

  it('changes nothing with --check, and exits with 1 and a line for each outdated part', async () => {
    const { code, lines } = await migrate(['--check'])
    expect(code).toBe(1)
    expect(lines.map((line) => line.slice(0, line.indexOf(' missing')))).toEqual([
      'sessions: the tables of did_auth_schema are',
      'relay: the tables of relay_schema are',
      'vault: the tables of vault_schema are'
    ])
    await migrate()
    await database.query('DELETE FROM vault_schema')
    expect((await migrate(['--check'])).lines).toEqual([
      expect.stringContaining('vault: the tables of vault_schema are missing')
    ])
    await database.query('INSERT INTO vault_schema VALUES (1, 1)')
    expect(await migrate(['--check'])).toEqual({ code: 0, lines: ['The tables are up to date.'] })
  })

  it('prints executable SQL with --print, which creates tables that the servers accept', async () => {
    const { lines } = await migrate(['--print'])
    expect(lines.at(0)).toBe('BEGIN;')
    expect(lines.at(-1)).toBe('COMMIT;')
    await expect(openAll()).rejects.toThrow('are missing')
    await database.query(lines.join('\n'))
    await openAll()
    expect(await migrate(['--print'])).toEqual({ code: 0, lines: ['-- The tables are up to date.'] })
  })

  it('waits for a database that starts at the same time, and reports it once', async () => {
    const engine = await startPostgres()
    try {
      await engine.stop()
      const lines: string[] = []
      const migrating = migrate([], engine.url(), lines)
      await until(() => lines.length > 0)
      await engine.start()
      expect((await migrating).lines).toEqual([
        'Waiting up to 60 s for the database (DATABASE_URL).',
        expect.stringMatching(/^sessions: ran/),
        expect.stringMatching(/^relay: ran/),
        expect.stringMatching(/^vault: ran/)
      ])
    } finally {
      await engine.remove()
    }
  })

  it('fails at once for a cause that waiting cannot fix', async () => {
    const url = new URL(database.url)
    url.pathname = '/of_nobody'
    await expect(migrate([], url.href)).rejects.toThrow(
      'Cannot use the database (DATABASE_URL): PostgreSQL has no such database'
    )
  })
})
