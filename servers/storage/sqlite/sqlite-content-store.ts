import type { SweepClock } from 'express-did-auth/stores/sqlite'
import type { Clock } from 'express-did-auth'
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
import type { ObjectStore } from '../object-store.js'
import {
  deleteGarbage,
  readUntil,
  storeContent,
  type ContentRow,
  type ObjectWriter,
  type UploadNeeded
} from '../object-writer.js'
import { storageFailure } from '../storage-error.js'
import { storedContent, type FoundContent } from '../stored-content.js'
import type { FileRow } from '../quota.js'
import { SqlitePinLedger } from './sqlite-pin-ledger.js'
import { makeReserve } from '../disk-space.js'
import { rewriteFile } from './rewrite-file.js'
import type { VerbCaller } from './verb-caller.js'

/** What the store is built of. */
export interface SqliteContentStoreParts {
  /** Path of the database. */
  readonly file: string
  readonly verbs: VerbCaller
  readonly objects: ObjectStore
  readonly writer: ObjectWriter
  readonly clock: Clock
  readonly sweepClock: SweepClock
}

/** Relay and vault in one SQLite file, which a thread of its own has open, and objects. */
export class SqliteContentStore extends SqlitePinLedger implements ContentStore {
  readonly #parts: SqliteContentStoreParts

  constructor(parts: SqliteContentStoreParts) {
    super(parts.verbs)
    this.#parts = parts
  }

  async writeEntry({ content, ...write }: EntryWrite): Promise<EntryChange> {
    return this.#store(content, (row) =>
      this.verbs.call('content', 'writeEntry', { ...write, content: row }, this.#now())
    )
  }

  async removeEntries(removal: EntryRemoval): Promise<EntryChange> {
    return this.verbs.call('content', 'removeEntries', removal, this.#now())
  }

  async describeList(place: EntryPlace): Promise<ListDescription> {
    return this.verbs.call('content', 'describeList', place)
  }

  async listEntries(place: EntryPlace): Promise<EntryList> {
    return this.verbs.call('content', 'listEntries', place)
  }

  async listOwnEntries(did: string): Promise<readonly KeyedEntry[]> {
    return this.verbs.call('content', 'listOwnEntries', did)
  }

  async usageOf(did: string): Promise<Usage> {
    return this.verbs.call('content', 'usageOf', did)
  }

  async storedBytes(): Promise<number> {
    return this.verbs.call('content', 'storedBytes')
  }

  async writeFile({ content, ...post }: FileWrite): Promise<{ readonly changedPins: readonly string[] }> {
    return this.#store(content, (row) => this.verbs.call('content', 'writeFile', { ...post, content: row }))
  }

  async findFile(cid: string, nowSeconds: number): Promise<FileRow | undefined> {
    return this.verbs.call('content', 'findFile', cid, nowSeconds)
  }

  async deleteExpiredFiles(beforeSeconds: number): Promise<boolean> {
    const sweepable = Math.min(beforeSeconds, this.#sweepSeconds())
    return this.verbs.call('content', 'deleteExpiredFiles', sweepable)
  }

  async readContents(cids: readonly string[]): Promise<readonly (StoredContent | undefined)[]> {
    const found = await this.verbs.call('content', 'findContents', cids)
    return found.map((one) => one && storedContent(one, this.#parts.objects))
  }

  async repairContent(content: NewContent): Promise<void> {
    await this.#parts.writer.store(content, (row) => this.verbs.call('content', 'repairContent', row, this.#now()))
  }

  async takeDown(
    cid: string,
    reason: string,
    nowSeconds: number
  ): Promise<{ removed: number; remains: readonly string[] }> {
    const { removed, wasInRow } = await this.verbs.call('upkeep', 'takeDown', cid, reason, nowSeconds)
    await this.collectGarbage(nowSeconds)
    return { removed, remains: await rewriteFile(this.#parts, wasInRow) }
  }

  async allow(cid: string): Promise<boolean> {
    return this.verbs.call('upkeep', 'allow', cid)
  }

  async isTakenDown(cid: string): Promise<boolean> {
    return this.verbs.call('content', 'isTakenDown', cid)
  }

  async collectGarbage(nowSeconds: number, { isFull } = { isFull: false }): Promise<void> {
    const { objects } = this.#parts
    const times = [Math.min(nowSeconds, this.#sweepSeconds()), readUntil(nowSeconds, objects, isFull)] as const
    let failure: unknown
    for (let after = ''; ;) {
      const garbage = await this.verbs.call('upkeep', 'claimGarbage', after, ...times)
      const last = garbage.at(-1)
      if (last === undefined) break
      const outcome = await deleteGarbage(objects, garbage)
      failure ??= outcome.failure
      if (outcome.deleted.length > 0) await this.verbs.call('upkeep', 'forgetGarbage', outcome.deleted)
      after = last.object
    }
    if (failure !== undefined) throw storageFailure(failure)
  }

  async probe(): Promise<void> {
    await this.verbs.call('upkeep', 'probe')
    // Removals may have used it.
    makeReserve(this.#parts.file)
  }

  async close(): Promise<void> {
    await this.verbs.close()
  }

  #store<T extends object>(content: NewContent, write: (row: ContentRow) => Promise<T | UploadNeeded>): Promise<T> {
    const find = async (cid: string): Promise<FoundContent | undefined> =>
      (await this.verbs.call('content', 'findContents', [cid]))[0]
    const repair = (damaged: NewContent): Promise<void> => this.repairContent(damaged)
    return storeContent({ ...this.#parts, find, repair }, content, write)
  }

  #now(): number {
    return this.#parts.clock.nowSeconds()
  }

  #sweepSeconds(): number {
    return this.#parts.sweepClock.sweepSeconds(this.#now())
  }
}
