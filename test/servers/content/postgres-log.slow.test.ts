import { afterAll, beforeAll, expect, it } from '@jest/globals'
import { migrateStore, PostgresDatabase, postgresStore } from 'express-did-auth/stores/postgres'
import type { TablePrefix } from '../../../servers/content/sql/content-dialect.js'
import { migrateContent, openPostgresContentStore } from '../../../servers/content/sql/open-postgres-contents.js'
import {
  createCharge,
  createRotation,
  service,
  createSession,
  START_SECONDS,
  createUse
} from '../../../src/testing/store-case.js'
import { createEntry, createFile, createLargeBytes, NOW, type TestStore } from '../../support/servers/content-stores.js'
import { startPostgres, TEST_TIMEOUT_SECONDS, type PostgresEngine } from '../../support/engines/postgres-server.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'
import { rounds } from '../../support/fixtures/time-factor.js'

const WRITERS = 16
const { path, remove } = temporaryFolder()
const databases: PostgresDatabase[] = []
let engine: PostgresEngine
beforeAll(async () => {
  engine = await startPostgres()
})
afterAll(async () => {
  await Promise.all(databases.map((database) => database.close()))
  await engine.remove()
  remove()
})

function connect(): PostgresDatabase {
  const database = new PostgresDatabase(engine.url(), { timeoutSeconds: TEST_TIMEOUT_SECONDS })
  databases.push(database)
  return database
}

/** Opens the storage of two instances of a server. */
async function openInstances(tables: TablePrefix): Promise<TestStore[]> {
  await migrateContent(connect(), tables)
  const open = (folder: string): TestStore =>
    openPostgresContentStore({ database: connect(), tables, folder, tracksPins: true }).store
  return [open(`${path}/${tables}-1`), open(`${path}/${tables}-2`)]
}

it('PostgreSQL logs no error for concurrent valid requests to two vaults, relays and auth servers', async () => {
  const start = engine.log().length
  const [vaults, relays] = [await openInstances('vault'), await openInstances('relay')]
  await migrateStore(connect())
  const stores = [postgresStore(connect()), postgresStore(connect())]
  // The few users and contents make writers and removals of the same rows meet.
  const contents = ['a', 'b', 'c', 'd', createLargeBytes('large')]
  const work = async (writer: number, round: number): Promise<void> => {
    const [vault, relay, store] = [vaults[writer % 2]!, relays[writer % 2]!, stores[writer % 2]!]
    const place = { did: `did:ethr:rsk:0x${writer % 4}`, key: `key ${round % 2}` }
    const content = contents[(writer + round) % contents.length]!
    const replaces = round % 3 === 0 ? 'nothing' : 'all'
    await vault.writeEntry(createEntry(place.key, content, { did: place.did, replaces }))
    if (round % 7 === 6) await vault.removeEntries(place)
    if (round % 10 === 9) await vault.collectGarbage(NOW)
    await relay.writeFile(createFile(content, { did: place.did, nowSeconds: NOW + round, ttlSeconds: 1 }))
    await relay.deleteExpiredFiles(NOW + round)
    if (writer === 0) await store.createSession(createSession(`${round}`))
    await store.rotateRefreshToken(createRotation(`${round}`, round % 2, writer))
    await store.consumeChallenge(createUse({ useCount: round % 3 }))
    await store.chargeQuota(createCharge({ limit: 100 }))
    if (writer === 1) await store.revokeSessions(service, createSession('a').did, START_SECONDS)
  }
  const writers = Array.from({ length: WRITERS }, async (_, writer) => {
    for (let round = 0; round < rounds(30, 400); round += 1) await work(writer, round)
  })
  await Promise.all(writers)
  const lines = engine.log().slice(start).split('\n')
  expect(lines.filter((line) => /\b(?:ERROR|FATAL|PANIC):/.test(line))).toEqual([])
  expect(databases.map(({ stats }) => stats.retriesByCode)).toEqual(databases.map(() => ({})))
})
