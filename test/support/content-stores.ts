import { join } from 'node:path'
import type { Clock } from 'express-did-auth'
import { escapeJson } from '../../servers/http/json-string.js'
import type {
  ContentStore,
  EntryWrite,
  FileWrite,
  NewContent,
  StoredContent
} from '../../servers/storage/content-store.js'
import { FileObjectStore } from '../../servers/storage/files/file-object-store.js'
import { newContentOf } from '../../servers/storage/unixfs-blocks.js'
import type { ObjectStore } from '../../servers/storage/object-store.js'
import type { PinLedger } from '../../servers/storage/pin-ledger.js'
import { openContentStore, type ContentStoreOptions } from '../../servers/storage/sqlite/open-content-store.js'
import { temporaryFolder } from './store-folder.js'

/** A wall clock and a monotonic one that stand until they are set. */
export interface FakeClocks extends Clock {
  seconds: number
  monotonicSeconds: number
  /** Lets both go on. */
  advance(seconds: number): void
}

export type TestStore = ContentStore & PinLedger

/** What a contract asks of an adapter: stores that share everything, as instances of a server do. */
export interface ContentFolder {
  readonly clocks: FakeClocks
  /** Where the large content of all stores lies. */
  readonly objects: ObjectStore
  /** What a takedown says of bytes that are not in reach of the store. */
  readonly remains: readonly string[]
  open(options?: { readonly tracksPins?: boolean; readonly objects?: ObjectStore }): Promise<TestStore>
  /** Closes all stores, and removes everything. */
  remove(): Promise<void>
}

/** Stores on one folder, by SQLite. */
export interface SqliteFolder extends ContentFolder {
  readonly folder: string
  readonly file: string
  open(options?: Partial<ContentStoreOptions>): Promise<TestStore>
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

/** @param sharedObjects - where large content lies; else in the folder */
export function sqliteFolder(sharedObjects?: ObjectStore): SqliteFolder {
  const { path, remove } = temporaryFolder()
  const folder = join(path, 'vault')
  const clocks = fakeClocks()
  const open: TestStore[] = []
  return {
    folder,
    file: join(folder, 'vault.db'),
    clocks,
    objects: sharedObjects ?? new FileObjectStore(join(folder, 'objects')),
    remains: [],
    open: async (options) => {
      const monotonicSeconds = (): number => clocks.monotonicSeconds
      const { store } = await openContentStore({
        folder,
        database: 'vault.db',
        clock: clocks,
        monotonicSeconds,
        ...(sharedObjects !== undefined && { objects: sharedObjects }),
        ...options
      })
      open.push(store)
      return store
    },
    remove: async () => {
      await Promise.all(open.map((store) => store.close()))
      remove()
    }
  }
}

export const did = 'did:ethr:rsk:0xa'

/** Bytes that are an object: no leaf of theirs is like another. */
export function largeBytes(name: string, byteCount = 300_000): Buffer {
  return Buffer.from(name.padEnd(20, '.').repeat(Math.ceil(byteCount / 20))).subarray(0, byteCount)
}

/** New content in memory. */
export function newContent(content: string | Uint8Array): NewContent {
  const bytes = Buffer.from(content)
  return newContentOf(bytes, escapeJson(bytes).length + 2)
}

/** A write as POST makes it. */
export function entryOf(key: string, content: string | Uint8Array, rest: Partial<EntryWrite> = {}): EntryWrite {
  const quota = { maxBytes: 67_108_864, maxEntries: 10_000 }
  return { did, key, content: newContent(content), replaces: 'nothing', quota, ...rest }
}

/** A post to the relay. */
export function fileOf(content: string | Uint8Array, rest: Partial<FileWrite> = {}): FileWrite {
  const bounds = { maxStoreBytes: 1_000_000_000, maxBytesPerDid: 10_000_000, slotSeconds: 86_400 }
  return { did, content: newContent(content), nowSeconds: NOW, ttlSeconds: 1_000, bounds, ...rest }
}

export function cidOf(content: string | Uint8Array): string {
  return newContent(content).cid
}

/** A name as objects have it. */
export function objectNameOf(text: string): string {
  return `${cidOf(text)}.0123456789abcdef`
}

/** The contents of a key, in their order. */
export async function textsOf(store: TestStore, key: string, owner = did): Promise<string[]> {
  const { entries } = await store.listEntries({ did: owner, key })
  return Promise.all((await store.readContents(entries.map(({ cid }) => cid))).map(textOf))
}

export async function textOf(content: StoredContent | undefined): Promise<string> {
  return content === undefined ? 'missing' : Buffer.from(await content.bytes()).toString()
}

export async function objectNames(objects: ObjectStore): Promise<string[]> {
  const names: string[] = []
  for await (const name of objects.list()) names.push(name)
  return names.sort()
}
