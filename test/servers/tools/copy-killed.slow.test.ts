import { afterEach, beforeEach, expect, it } from '@jest/globals'
import { join } from 'node:path'
import { PostgresDatabase } from 'express-did-auth/stores/postgres'
import { readEnv } from '../../../servers/config/read-env.js'
import { openPostgresContents } from '../../../servers/content/engine.js'
import type { ContentStore } from '../../../servers/content/content-store.js'
import { openContentStore } from '../../../servers/content/sql/open-sqlite-contents.js'
import { runOn, testDatabase, type TestDatabase } from '../../support/engines/postgres-server.js'
import { runCli, spawnCli } from '../../support/servers/server-process.js'
import { folderOfEachTest } from '../../support/fixtures/folder-of-each-test.js'
import { until } from '../../support/fixtures/until.js'
import { fillVault } from '../../support/servers/vault-app.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const ENTRIES = 10_000
const KEYS = Array.from({ length: 50 }, (_, number) => `key ${number}`)
const users = Array.from({ length: 10 }, (_, number) => createNumberedWallet(600 + number).did)

const folder = folderOfEachTest()
let database: TestDatabase

beforeEach(async () => {
  database = await testDatabase()
  const { store } = await openContentStore({ folder: join(folder.path, 'vault'), database: 'vault.db' })
  for (const [user, did] of users.entries()) {
    const entries = Array.from({ length: ENTRIES / users.length }, (_, number): [string, string] => [
      KEYS[number % KEYS.length]!,
      // All users share some contents, and each user has some contents that are stored as objects.
      number % 5 === 0 ? `shared ${number}` : `${user} ${number} `.repeat(number % 200 === 1 ? 20_000 : 20)
    ])
    await fillVault({ store }, did, entries)
  }
  await store.close()
})
afterEach(() => database.drop())

/** Reads the ETags of all lists, which depend on their entries, the numbers of the entries and their order. */
async function readEtags(store: ContentStore): Promise<string[]> {
  const places = users.flatMap((did) => KEYS.map((key) => ({ did, key })))
  const etags: string[] = []
  for (const place of places) etags.push((await store.listEntries(place)).etag)
  return etags
}

async function readLocalEtags(): Promise<string[]> {
  const { store } = await openContentStore({ folder: join(folder.path, 'vault'), database: 'vault.db' })
  const etags = await readEtags(store)
  await store.close()
  return etags
}

async function readMovedEtags(): Promise<string[]> {
  const pool = new PostgresDatabase(database.url)
  const env = readEnv(
    { DATA_DIR: join(folder.path, 'instance'), DATABASE_URL: database.url },
    'vault',
    false,
    'operate'
  )
  try {
    return await readEtags((await openPostgresContents(pool, env, undefined)).store)
  } finally {
    await pool.close()
  }
}

async function countEntries(): Promise<number> {
  const [row] = await runOn(database.url, 'SELECT count(*) AS number FROM vault_entries').catch(() => [])
  return Number(row?.number ?? 0)
}

it('copy continues after a kill at any moment, without losses or duplicates', async () => {
  const env = { DATA_DIR: folder.path, DATABASE_URL: database.url }
  const counts: number[] = []
  for (let round = 0; round < 6; round += 1) {
    const { child, ended, output } = spawnCli(['copy'], env)
    const before = counts.at(-1) ?? 0
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`it ended: ${output()}`)
      return (await countEntries()) > before + 100 + 200 * round
    })
    child.kill('SIGKILL')
    await ended
    counts.push(await countEntries())
  }
  expect(counts.at(-1)).toBeLessThan(ENTRIES)
  const { code, stdout } = await runCli(['copy'], env)
  expect(code).toBe(0)
  const [, copied, present] = /entries copied: (\d+) \(already in the database: (\d+)\)/.exec(stdout) ?? []
  expect(Number(copied) + Number(present)).toBe(ENTRIES)
  expect(Number(present)).toBeGreaterThanOrEqual(counts.at(-1)!)
  expect(await countEntries()).toBe(ENTRIES)
  expect(await readMovedEtags()).toEqual(await readLocalEtags())
})
