import type {
  ContentInfo,
  EntryChange,
  EntryList,
  EntryPlace,
  EntryRemoval,
  KeyedEntry,
  ListDescription,
  Usage
} from '../content-store.js'
import { etagOf, isMet, type Entry } from '../list-state.js'
import type { ContentRow, EntryRequest, FileRequest, UploadNeeded } from '../object-writer.js'
import { overQuota, type FileRow } from '../quota.js'
import type { Refusal } from '../storage-error.js'
import type { FoundContent } from '../stored-content.js'
import type { ContentTable } from './content-table.js'
import type { EntryTable, Owner } from './entry-table.js'
import type { FileTable } from './file-table.js'
import type { PinTable } from './pin-table.js'

const NO_USAGE: Usage = { byteCount: 0, entryCount: 0 }

const DAMAGED: Refusal = { refused: 'ERR_STORAGE', detail: 'a list is damaged' }

/** The tables of a database. */
export interface Tables {
  readonly contents: ContentTable
  readonly entries: EntryTable
  readonly files: FileTable
  readonly pins: PinTable
}

/**
 * The verbs of entries, files and content as the thread runs them. Each that writes expects a transaction, and refuses
 * before it has written anything, so that others may share it.
 */
export class ContentVerbs {
  readonly #contents: ContentTable
  readonly #entries: EntryTable
  readonly #files: FileTable
  readonly #pins: PinTable
  readonly #tracksPins: boolean

  /** @param tracksPins - whether new content is to be pinned on a node */
  constructor({ contents, entries, files, pins }: Tables, tracksPins: boolean) {
    this.#contents = contents
    this.#entries = entries
    this.#files = files
    this.#pins = pins
    this.#tracksPins = tracksPins
  }

  writeEntry(write: EntryRequest, nowSeconds: number): EntryChange | UploadNeeded | Refusal {
    const { did, key, content, quota } = write
    const { cid } = content
    if (this.#contents.isDenied(cid)) return this.#refuse({ refused: 'ERR_TAKEN_DOWN' }, content, nowSeconds)
    const owner = this.#entries.owner(did)
    const before = this.#entries.listState({ did, key })
    const unmet: Refusal = { refused: 'ERR_PRECONDITION', etag: etagOf(before) }
    if (!isMet(write, before)) return this.#refuse(unmet, content, nowSeconds)
    const replaced = owner === undefined ? [] : this.#replacedBy(write, owner)
    const refusal = replaced && overQuota(owner ?? NO_USAGE, replaced, content, quota)
    if (refusal !== undefined) return this.#refuse(refusal, content, nowSeconds)
    if (this.#contents.store(content, nowSeconds) === 'upload') return { upload: true }
    const list =
      replaced === undefined
        ? before
        : this.#entries.change(owner ?? this.#entries.addOwner(did), key, replaced, [content])
    this.#pins.want(cid, this.#tracksPins)
    return this.#changeOf(etagOf(list), [cid], replaced ?? [], nowSeconds)
  }

  removeEntries({ did, key, cid, ...conditions }: EntryRemoval, nowSeconds: number): EntryChange | Refusal {
    const owner = this.#entries.owner(did)
    const before = this.#entries.listState({ did, key })
    if (!isMet(conditions, before)) return { refused: 'ERR_PRECONDITION', etag: etagOf(before) }
    if (owner === undefined) return { etag: etagOf(before), changedPins: [] }
    const removed = cid === undefined ? this.#entries.entriesOf(owner, key) : this.#oneOf(owner, key, cid)
    const list = removed.length === 0 ? before : this.#entries.change(owner, key, removed, [])
    return this.#changeOf(etagOf(list), [], removed, nowSeconds)
  }

  describeList(place: EntryPlace): ListDescription {
    const state = this.#entries.listState(place)
    return { etag: etagOf(state), entryCount: state.entryCount }
  }

  listEntries(place: EntryPlace): EntryList | Refusal {
    return this.#entries.list(place) ?? DAMAGED
  }

  listOwnEntries(did: string): KeyedEntry[] | Refusal {
    return this.#entries.ofOwner(did) ?? DAMAGED
  }

  usageOf(did: string): Usage {
    const { byteCount, entryCount } = this.#entries.owner(did) ?? { byteCount: 0, entryCount: 0 }
    return { byteCount, entryCount }
  }

  storedBytes(): number {
    return this.#files.storedBytes()
  }

  writeFile({ content, ...post }: FileRequest): { changedPins: string[] } | UploadNeeded | Refusal {
    const { cid } = content
    const { nowSeconds } = post
    if (this.#contents.isDenied(cid)) return this.#refuse({ refused: 'ERR_TAKEN_DOWN' }, content, nowSeconds)
    const refusal = this.#files.refusalOf(content, post)
    if (refusal !== undefined) return this.#refuse(refusal, content, nowSeconds)
    if (this.#contents.store(content, nowSeconds) === 'upload') return { upload: true }
    this.#files.write(content, post)
    this.#pins.want(cid, this.#tracksPins)
    return { changedPins: this.#pins.open([cid]) }
  }

  findFile(cid: string, nowSeconds: number): FileRow | Refusal | undefined {
    if (this.#contents.isDenied(cid)) return { refused: 'ERR_TAKEN_DOWN' }
    const file = this.#files.find(cid)
    return file !== undefined && file.expiresAtSeconds > nowSeconds ? file : undefined
  }

  deleteExpiredFiles(beforeSeconds: number): boolean {
    const { cids, mayBeMore } = this.#files.deleteEnded(beforeSeconds)
    for (const cid of cids) this.#drop(cid, beforeSeconds)
    return mayBeMore
  }

  findContents(cids: readonly string[]): (FoundContent | undefined)[] {
    return cids.map((cid) => this.#contents.find(cid))
  }

  repairContent(content: ContentRow, nowSeconds: number): UploadNeeded | undefined {
    if (!this.#contents.isUsed(content.cid)) return undefined
    if (this.#contents.replace(content, nowSeconds) === 'upload') return { upload: true }
    this.#entries.correct(content)
    this.#files.correct(content)
    return undefined
  }

  isTakenDown(cid: string): boolean {
    return this.#contents.isDenied(cid)
  }

  /** What was written for refused content is not waited for. */
  #refuse(refusal: Refusal, content: ContentRow, nowSeconds: number): Refusal {
    this.#contents.discard(content, refusal.refused === 'ERR_TAKEN_DOWN' ? 'takedown' : 'removed', nowSeconds)
    return refusal
  }

  /** Which entries a write takes the place of; undefined when the list stays as it is. */
  #replacedBy({ key, content: { cid }, replaces }: EntryRequest, owner: Owner): Entry[] | undefined {
    if (replaces === 'nothing') return this.#entries.find(owner, key, cid) === undefined ? [] : undefined
    const replaced =
      replaces === 'all'
        ? this.#entries.entriesOf(owner, key)
        : [...new Set([replaces.cid, cid])].flatMap((one) => this.#oneOf(owner, key, one))
    const [only] = replaced
    const isSame = replaced.length === 1 && only?.cid === cid && this.#entries.isLast(owner, key, only)
    return isSame ? undefined : replaced
  }

  #oneOf(owner: Owner, key: string, cid: string): Entry[] {
    const entry = this.#entries.find(owner, key, cid)
    return entry === undefined ? [] : [entry]
  }

  #changeOf(etag: string, written: string[], removed: readonly ContentInfo[], nowSeconds: number): EntryChange {
    const dropped = removed.map(({ cid }) => cid).filter((cid) => this.#drop(cid, nowSeconds))
    return { etag, changedPins: this.#pins.open([...written, ...dropped]) }
  }

  #drop(cid: string, nowSeconds: number): boolean {
    const isDropped = this.#contents.dropUnused(cid, nowSeconds)
    if (isDropped) this.#pins.unwant(cid)
    return isDropped
  }
}
