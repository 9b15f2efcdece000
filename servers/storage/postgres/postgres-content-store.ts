import type { Clock } from 'express-did-auth'
import type { SweepClock } from 'express-did-auth/stores/sqlite'
import type {
  ContentStore,
  EntryChange,
  EntryList,
  EntryPlace,
  EntryRemoval,
  EntryWrite,
  FileWrite,
  KeyedEntry,
  ListDescription,
  NewContent,
  StoredContent,
  Usage
} from '../content-store.js'
import type { FileRow } from '../quota.js'
import type { ObjectStore } from '../object-store.js'
import { readUntil, storeContent, type ContentRow, type ObjectWriter, type UploadNeeded } from '../object-writer.js'
import { storedContent } from '../stored-content.js'
import type { ContentDatabase } from './content-database.js'
import { ContentPlacing } from './content-placing.js'
import { ContentRows } from './content-rows.js'
import { EntryReads } from './entry-reads.js'
import { EntryWrites, type WrittenEntry } from './entry-writes.js'
import { FileWrites } from './file-writes.js'
import { GarbageCollector } from './garbage-collector.js'
import { LooseContents } from './loose-contents.js'
import { PinChanges } from './pin-changes.js'
import { PostgresPinLedger } from './postgres-pin-ledger.js'
import { Takedown } from './takedown.js'
import { Turns } from './turns.js'

/** What the store is built of. */
export interface PostgresContentStoreParts {
  readonly database: ContentDatabase
  readonly objects: ObjectStore
  readonly writer: ObjectWriter
  readonly clock: Clock
  readonly sweepClock: SweepClock
  readonly monotonicSeconds: () => number
  readonly tracksPins: boolean
}

/** Relay or vault in PostgreSQL, which any number of instances share, and objects. */
export class PostgresContentStore extends PostgresPinLedger implements ContentStore {
  readonly #parts: PostgresContentStoreParts
  readonly #rows: ContentRows
  readonly #entries: EntryWrites
  readonly #reads: EntryReads
  readonly #files: FileWrites
  readonly #loose: LooseContents
  readonly #garbage: GarbageCollector
  readonly #takedown: Takedown
  readonly #probe

  readonly #turns = new Turns()

  constructor(parts: PostgresContentStoreParts) {
    const { database, objects, monotonicSeconds, tracksPins } = parts
    super(database)
    this.#parts = parts
    const placing = new ContentPlacing(database)
    const pins = new PinChanges(database, tracksPins)
    this.#rows = new ContentRows(database, placing)
    this.#loose = new LooseContents(database)
    this.#entries = new EntryWrites(database, placing, pins, this.#loose)
    this.#reads = new EntryReads(database)
    this.#files = new FileWrites({ database, placing, pins, loose: this.#loose, monotonicSeconds })
    this.#garbage = new GarbageCollector(database, objects)
    this.#takedown = new Takedown(database)
    this.#probe = database.statement('probe', 'UPDATE ~probes SET number = number + 1 WHERE id = 1')
  }

  async writeEntry({ content, ...write }: EntryWrite): Promise<EntryChange> {
    const written = await this.#store(content, (row) =>
      this.#turns.run(write.did, () => this.#entries.write({ ...write, content: row }, this.#now()))
    )
    return changeOf(written, [content.cid])
  }

  async removeEntries(removal: EntryRemoval): Promise<EntryChange> {
    const removed = this.#turns.run(removal.did, () => this.#entries.remove(removal, this.#now()))
    return changeOf(await removed, [])
  }

  async describeList(place: EntryPlace): Promise<ListDescription> {
    return this.#reads.describe(place)
  }

  async listEntries(place: EntryPlace): Promise<EntryList> {
    return this.#reads.list(place)
  }

  async listOwnEntries(did: string): Promise<readonly KeyedEntry[]> {
    return this.#reads.listOwn(did)
  }

  async usageOf(did: string): Promise<Usage> {
    return this.#reads.usageOf(did)
  }

  async storedBytes(): Promise<number> {
    return this.#files.storedBytes()
  }

  async writeFile({ content, ...post }: FileWrite): Promise<{ readonly changedPins: readonly string[] }> {
    const { isPinOpen } = await this.#store(content, (row) => this.#files.write({ ...post, content: row }))
    return { changedPins: isPinOpen ? [content.cid] : [] }
  }

  async findFile(cid: string, nowSeconds: number): Promise<FileRow | undefined> {
    return this.#files.find(cid, nowSeconds)
  }

  async deleteExpiredFiles(beforeSeconds: number): Promise<boolean> {
    const sweepable = Math.min(beforeSeconds, this.#sweepSeconds())
    return Number.isFinite(sweepable) && this.#files.deleteExpired(sweepable)
  }

  async readContents(cids: readonly string[]): Promise<readonly (StoredContent | undefined)[]> {
    const found = await this.#rows.find(cids)
    return found.map((one) => one && storedContent(one, this.#parts.objects))
  }

  async repairContent(content: NewContent): Promise<void> {
    await this.#parts.writer.store(content, (row) => this.#rows.repair(row, this.#now()))
  }

  async takeDown(
    cid: string,
    reason: string,
    nowSeconds: number
  ): Promise<{ removed: number; remains: readonly string[] }> {
    const removed = await this.#takedown.takeDown(cid, reason, nowSeconds)
    await this.collectGarbage(nowSeconds)
    // Its log, replicas and backups may have it, as a disk's snapshots may: nothing here can name them.
    return { removed, remains: [] }
  }

  async allow(cid: string): Promise<boolean> {
    return this.#takedown.allow(cid)
  }

  async isTakenDown(cid: string): Promise<boolean> {
    return this.#takedown.isTakenDown(cid)
  }

  async collectGarbage(nowSeconds: number, { isFull } = { isFull: false }): Promise<void> {
    await this.#loose.collect(nowSeconds)
    const uploadsBefore = Math.min(nowSeconds, this.#sweepSeconds())
    await this.#garbage.collect(uploadsBefore, readUntil(nowSeconds, this.#parts.objects, isFull))
    this.#files.forgetSum()
  }

  async probe(): Promise<void> {
    await this.database.query(this.#probe, [], { isRepeatable: true })
  }

  /** The database is its caller's to close. */
  close(): Promise<void> {
    return Promise.resolve()
  }

  #store<T extends object>(content: NewContent, write: (row: ContentRow) => Promise<T | UploadNeeded>): Promise<T> {
    const { objects, writer } = this.#parts
    const find = async (cid: string) => (await this.#rows.find([cid]))[0]
    const repair = (damaged: NewContent): Promise<void> => this.repairContent(damaged)
    return storeContent({ objects, writer, find, repair }, content, write)
  }

  #now(): number {
    return this.#parts.clock.nowSeconds()
  }

  #sweepSeconds(): number {
    return this.#parts.sweepClock.sweepSeconds(this.#now())
  }
}

function changeOf({ etag, isPinOpen, unpinned }: WrittenEntry, written: readonly string[]): EntryChange {
  return { etag, changedPins: [...(isPinOpen ? written : []), ...unpinned] }
}
