import type { Clock } from 'express-did-auth'
import { chooseSqliteEngine, openSqliteConnection } from 'express-did-auth/server-kit'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import type {
  ContentStore,
  EntryWrite,
  FileWrite,
  NewContent,
  ObjectStore,
  StoredContent
} from '../../../servers/content/content-store.js'
import { createFileObjectStore } from '../../../servers/content/files.js'
import type { OpenContentStore } from '../../../servers/content/sql/sql-content-store.js'
import { openContentStore, type ContentStoreOptions } from '../../../servers/content/sql/open-sqlite-contents.js'
import { createNewContent } from '../../../servers/content/unixfs-blocks.js'
import { temporaryFolder } from '../fixtures/store-folder.js'

/** Wall clock and monotonic clock that change only when a test sets them. */
export interface FakeClocks extends Clock {
  seconds: number
  monotonicSeconds: number
  /** Advances both clocks. */
  advance(seconds: number): void
}

export type TestStore = ContentStore

export type Rows = Record<string, unknown>[]

/** Options of a test's store that differ from the defaults. */
export interface TestStoreOptions {
  readonly tracksPins?: boolean
  readonly objects?: ObjectStore
}

/** Storage that a contract tests, with several stores that share everything, like instances of a server. */
export interface ContentFolder {
  readonly clocks: FakeClocks
  /** Storage for the large content of all stores. */
  readonly objects: ObjectStore
  /** Bytes that the store cannot delete, as a takedown reports them. */
  readonly remains: readonly string[]
  /** Folder that `remove` deletes. */
  readonly folder: string
  /** Address of the same storage for another process: the first argument of content-child.ts. */
  readonly place: string
  open(options?: TestStoreOptions): Promise<TestStore>
  openAll(options?: TestStoreOptions): Promise<OpenContentStore>
  /** Runs SQL outside all stores; `~` marks the name of each table. */
  query(text: string): Promise<Rows>
  /** Returns unused content that exists, and used content that is missing, after garbage collection. */
  leaks(store: TestStore): Promise<string[]>
  /** Returns the number of retries of a statement or transaction, by SQLSTATE. */
  retries(): Record<string, number>
  /** Closes all stores, and removes everything. */
  remove(): Promise<void>
}

/** SQLite stores on one folder. */
export interface SqliteFolder extends ContentFolder {
  readonly file: string
  open(options?: Partial<ContentStoreOptions>): Promise<TestStore>
  openAll(options?: Partial<ContentStoreOptions>): Promise<OpenContentStore>
}

export const NOW = 1_000_000

export function fakeClocks(): FakeClocks {
  const clocks: FakeClocks = {
    seconds: NOW,
    monotonicSeconds: 0,
    nowSeconds: () => clocks.seconds,
    advance: (seconds) => {
      clocks.seconds += seconds
      clocks.monotonicSeconds += seconds
    }
  }
  return clocks
}

/**
 * Creates a folder for SQLite stores.
 *
 * @param sharedObjects - storage of large content; default: the folder
 */
export function sqliteFolder(sharedObjects?: ObjectStore): SqliteFolder {
  const { path, remove } = temporaryFolder()
  const folder = join(path, 'vault')
  const file = join(folder, 'vault.db')
  const clocks = fakeClocks()
  const stores: TestStore[] = []
  const openAll: SqliteFolder['openAll'] = async (options) => {
    const opened = await openContentStore({
      folder,
      database: 'vault.db',
      clock: clocks,
      monotonicSeconds: () => clocks.monotonicSeconds,
      ...(sharedObjects !== undefined && { objects: sharedObjects }),
      ...options
    })
    stores.push(opened.store)
    return opened
  }
  const files: SqliteFolder = {
    folder,
    place: folder,
    file,
    clocks,
    objects: sharedObjects ?? createFileObjectStore(join(folder, 'objects')),
    remains: [],
    open: async (options) => (await openAll(options)).store,
    openAll,
    query: (text) => Promise.resolve(queryFile(file, text.replaceAll('~', ''))),
    leaks: async (store) => [
      ...(await findLeaks(files, store)),
      ...readdirSync(join(folder, 'spool')).map((name) => `spool ${name}`)
    ],
    retries: () => ({}),
    remove: async () => {
      await Promise.all(stores.map((store) => store.close()))
      remove()
    }
  }
  return files
}

/** Runs SQL on a database file that stores may have open. */
export function queryFile(file: string, text: string): Rows {
  const connection = openSqliteConnection(file, chooseSqliteEngine(), {
    synchronous: 'NORMAL',
    busyMilliseconds: 5_000
  })
  try {
    if (text.startsWith('SELECT')) return connection.prepare(text).all()
    connection.exec(text)
    return []
  } finally {
    connection.close()
  }
}

/** Query for unused content, entries without their content, and pins that do not match the stored content. */
const LEAKS = `SELECT 'unused content ' || cid AS name FROM ~contents c
    WHERE NOT EXISTS (SELECT 1 FROM ~entries e WHERE e.cid = c.cid)
      AND NOT EXISTS (SELECT 1 FROM ~files f WHERE f.cid = c.cid)
  UNION ALL SELECT 'missing content ' || cid FROM ~entries e
    WHERE NOT EXISTS (SELECT 1 FROM ~contents c WHERE c.cid = e.cid)
  UNION ALL SELECT 'pin ' || cid || ' is ' || state FROM ~pins p
    WHERE (state <> 'unpin') <> EXISTS (SELECT 1 FROM ~contents c WHERE c.cid = p.cid)`

export async function findLeaks(files: ContentFolder, store: TestStore): Promise<string[]> {
  // 10,000 s are longer than the time limit of an unfinished upload.
  files.clocks.advance(10_000)
  await store.collectGarbage(files.clocks.seconds)
  const faults = (await files.query(LEAKS)).map(({ name }) => String(name))
  for (const table of ['garbage', 'unreferenced']) {
    for (const row of await files.query(`SELECT * FROM ~${table}`)) faults.push(`${table} ${JSON.stringify(row)}`)
  }
  const used = await files.query('SELECT object FROM ~contents WHERE object IS NOT NULL')
  const [expected, stored] = [used.map(({ object }) => String(object)).sort(), await listObjectNames(files.objects)]
  if (expected.join() !== stored.join()) faults.push(`objects ${stored.join()} for ${expected.join()}`)
  return faults
}

export const did = 'did:ethr:rsk:0xa'

/** Returns bytes that are stored as an object, with all leaves different. */
export function createLargeBytes(name: string, byteCount = 300_000): Buffer {
  return Buffer.from(name.padEnd(20, '.').repeat(Math.ceil(byteCount / 20))).subarray(0, byteCount)
}

/** Returns new content in memory. */
export function createContent(content: string | Uint8Array): NewContent {
  return createNewContent(Buffer.from(content))
}

/** Returns the write of a `POST` to the vault. */
export function createEntry(key: string, content: string | Uint8Array, changes: Partial<EntryWrite> = {}): EntryWrite {
  const quota = { maxBytes: 67_108_864, maxEntries: 10_000 }
  return { did, key, content: createContent(content), replaces: 'nothing', quota, ...changes }
}

/** Returns the write of a `POST` to the relay. */
export function createFile(content: string | Uint8Array, changes: Partial<FileWrite> = {}): FileWrite {
  const bounds = { maxStoreBytes: 1_000_000_000, maxBytesPerDid: 10_000_000, slotSeconds: 86_400 }
  return { did, content: createContent(content), nowSeconds: NOW, ttlSeconds: 1_000, bounds, ...changes }
}

export function computeCid(content: string | Uint8Array): string {
  return createContent(content).cid
}

/** Returns a name in the format of objects. */
export function createObjectName(text: string): string {
  return `${computeCid(text)}.0123456789abcdef`
}

/** Returns the contents of a key in order. */
export async function readTexts(store: TestStore, key: string, owner = did): Promise<string[]> {
  const { entries } = await store.listEntries({ did: owner, key })
  return Promise.all((await store.readContents(entries.map(({ cid }) => cid))).map(readText))
}

export async function readText(content: StoredContent | undefined): Promise<string> {
  return content === undefined ? 'missing' : Buffer.from(await content.bytes()).toString()
}

export async function listObjectNames(objects: ObjectStore): Promise<string[]> {
  const names: string[] = []
  for await (const name of objects.list()) names.push(name)
  return names.sort()
}
