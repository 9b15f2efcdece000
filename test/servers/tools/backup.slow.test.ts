import { afterEach, describe, expect, it } from '@jest/globals'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DUMPED_TABLES } from '../../../servers/tools/postgres-dump.js'
import { runOn, testDatabase } from '../../support/engines/postgres-server.js'
import { afterTest } from '../../support/fixtures/after-test.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'
import { relayGet, relayLogIn, relayPost } from '../../support/servers/relay-client.js'
import { ask, logIn, me, post, refresh } from '../../support/servers/server-client.js'
import { runCli, ServerProcesses, type Env, type ReadyServer } from '../../support/servers/server-process.js'

const wallet = createNumberedWallet(1)
/** URLs of the servers, which stay the same although each start uses other ports: sessions are stored by URL. */
const urls = Object.fromEntries(
  ['auth', 'relay', 'vault'].map((name) => [`${name.toUpperCase()}_SERVICE_URL`, `https://${name}.example.com`])
)
const servers = new ServerProcesses(urls)
afterEach(() => servers.killAll())

const findUrl = (all: readonly ReadyServer[], name: string): string => all.find(({ server }) => server === name)!.url

/** Creates the environment of a new place: a folder, and with PostgreSQL a new database. */
async function createPlace(engine: string): Promise<Env> {
  const folder = temporaryFolder()
  afterTest(folder.remove)
  const env = { DATA_DIR: join(folder.path, 'data') }
  if (engine === 'SQLite') return env
  const database = await testDatabase()
  afterTest(() => servers.stopAll().then(() => database.drop()))
  // A backup must not depend on the settings of the database.
  await runOn(database.url, `ALTER DATABASE "${new URL(database.url).pathname.slice(1)}" SET bytea_output = 'escape'`)
  return { ...env, DATABASE_URL: database.url, PRIVATE_KEY: '11'.repeat(32), CHALLENGE_SECRET: '22'.repeat(32) }
}

describe.each(['SQLite', 'PostgreSQL'])('a backup of %s', (engine) => {
  it('runs during writes, and restores sessions, keys, files and each acknowledged entry', async () => {
    const source = await createPlace(engine)
    const { servers: first } = await servers.start(source, [], 'all')
    const session = await logIn(findUrl(first, 'auth'), wallet, 'auth.example.com')
    const { accessToken } = await logIn(findUrl(first, 'vault'), wallet, 'vault.example.com')
    const relay = findUrl(first, 'relay')
    const cid = await relayPost(relay, await relayLogIn(relay, wallet), 'large file '.repeat(20_000))
    const acknowledged: string[] = []
    // One size above and one below the limit from which content is an object.
    const write = async (): Promise<void> => {
      const content = `${acknowledged.length} `.repeat(acknowledged.length % 3 === 0 ? 40_000 : 40)
      const headers = { Authorization: `DIDAuth ${accessToken}` }
      expect((await post(`${findUrl(first, 'vault')}/notes`, { content }, headers)).status).toBe(201)
      acknowledged.push(content)
    }
    // `node:readline` splits at these characters, which JSON may contain.
    const separators = `line${encodeURIComponent('\u2028')}and${encodeURIComponent('\u2029')}paragraph`
    const authorization = { Authorization: `DIDAuth ${accessToken}` }
    const posted = await post(`${findUrl(first, 'vault')}/${separators}`, { content: 'separated' }, authorization)
    expect(posted.status).toBe(201)
    for (let count = 0; count < 12; count += 1) await write()
    let isDone = false
    const writing = (async () => {
      while (!isDone) await write()
    })()
    const before = acknowledged.length
    const folder = join(servers.folder, 'backup')
    const { code, stderr } = await runCli(['backup', folder], source).finally(() => {
      isDone = true
      return writing
    })
    expect([code, stderr]).toEqual([0, ''])
    await servers.stopAll()

    const target = await createPlace(engine)
    expect((await runCli(['restore', folder], target)).code).toBe(0)
    const { servers: second } = await servers.start(target, [], 'all')
    const { status, text } = await ask(`${findUrl(second, 'vault')}/${wallet.did}/notes`)
    const entries = JSON.parse(text) as string[]
    expect([status, entries]).toEqual([200, acknowledged.slice(0, entries.length)])
    expect(entries.length).toBeGreaterThanOrEqual(before)
    const separated = await ask(`${findUrl(second, 'vault')}/${wallet.did}/${separators}`)
    expect([separated.status, separated.text]).toEqual([200, '["separated"]'])
    expect((await me(findUrl(second, 'auth'), session.accessToken)).status).toBe(200)
    expect((await refresh(findUrl(second, 'auth'), session.refreshToken)).status).toBe(200)
    const secondRelay = findUrl(second, 'relay')
    const file = await relayGet(secondRelay, await relayLogIn(secondRelay, wallet), cid)
    expect(file.status).toBe(200)
    // A new session, a new owner and a new entry get larger numbers than those of the backup.
    const other = await logIn(findUrl(second, 'vault'), createNumberedWallet(2), 'vault.example.com')
    const headers = { Authorization: `DIDAuth ${other.accessToken}` }
    expect((await post(`${findUrl(second, 'vault')}/notes`, { content: 'new' }, headers)).status).toBe(201)
    const reconciled = await runCli(['vault', 'reconcile', '--dry-run'], target)
    expect([reconciled.code, reconciled.stdout]).toEqual([0, expect.stringContaining('all undamaged')])
    const again = await runCli(['restore', folder], target)
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining('is not empty')])
  })
})

describe('a backup of PostgreSQL', () => {
  it('contains every table of the servers that survives a crash, except versions of tables', async () => {
    const { DATABASE_URL: url = '', ...env } = await createPlace('PostgreSQL')
    expect((await runCli(['migrate'], { ...env, DATABASE_URL: url })).code).toBe(0)
    const rows = await runOn(
      url,
      `SELECT relname FROM pg_class WHERE relkind = 'r' AND relpersistence = 'p'
      AND relnamespace = 'public'::regnamespace AND relname NOT LIKE '%\\_schema'`
    )
    expect(rows.map(({ relname }) => String(relname)).sort()).toEqual([...DUMPED_TABLES].sort())
  })

  it('is refused if a byte of a table has changed, and leaves the database empty', async () => {
    const source = await createPlace('PostgreSQL')
    expect((await runCli(['migrate'], source)).code).toBe(0)
    const folder = join(servers.folder, 'damaged')
    expect((await runCli(['backup', folder], source)).code).toBe(0)
    writeFileSync(join(folder, 'vault_entries.jsonl.gz'), 'damage')
    const target = await createPlace('PostgreSQL')
    const { code, stderr } = await runCli(['restore', folder], target)
    expect([code, stderr]).toEqual([1, expect.stringContaining('vault_entries.jsonl.gz was changed')])
    expect(await runOn(target.DATABASE_URL!, `SELECT 1 FROM pg_class WHERE relname = 'vault_entries'`)).toEqual([])
  })
})
