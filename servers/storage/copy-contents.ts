import type { ContentExport, ContentImport, ContentInspection } from './content-inspection.js'
import type { ContentStore, EntryPlace, NewContent, StoredContent } from './content-store.js'
import { codeOf } from '../config/startup-error.js'
import type { FileRow } from './quota.js'
import type { Entry } from './list-state.js'
import { isMissing } from './storage-error.js'
import { newContentOf } from './unixfs-blocks.js'

const NOTHING = {
  entries: 0,
  knownEntries: 0,
  files: 0,
  knownFiles: 0,
  expiredFiles: 0,
  denied: 0,
  /** Pins that were looked at. */
  pins: 0,
  /** Entries and files of content that was taken down where they were to go. */
  refused: 0
}

/** What was copied, what was there already, and what was not copied. */
export interface CopiedContents extends Record<keyof typeof NOTHING, number> {
  /** Content of entries and files that is lost or damaged. */
  readonly missing: Set<string>
  readonly damagedLists: readonly EntryPlace[]
}

/** From where to where. */
export interface CopyParts {
  /** Nothing writes to it meanwhile. */
  readonly source: {
    readonly store: Pick<ContentStore, 'readContents'>
    readonly inspection: Pick<ContentInspection, 'recount'> & ContentExport
  }
  readonly target: {
    readonly store: Pick<ContentStore, 'describeList' | 'listEntries' | 'findFile' | 'isTakenDown' | 'takeDown'>
    readonly imports: ContentImport
  }
  readonly nowSeconds: number
  /** Gets how many entries and files there were so far, now and then. */
  readonly onProgress?: (count: number) => void
}

type Add = (content: NewContent) => Promise<void>

/** What is under way at once: enough that a trip to the database and the disk do not wait for each other. */
const PARALLEL = 8
const CONTENTS_AT_ONCE = 64
const PROGRESS = 10_000

/**
 * Copies all that a store has to another one, which servers may use at the same time. Entries keep their numbers, and so
 * lists keep their order and their ETags. Each content is verified by its cid. Run again, it adds what is new.
 *
 * @throws as the verbs of the stores; nothing that was copied until then is lost
 */
export async function copyContents(parts: CopyParts): Promise<CopiedContents> {
  const [{ inspection }, { imports }] = [parts.source, parts.target]
  const { damagedLists } = await inspection.recount({ isDryRun: true })
  const copy = new ContentCopy(parts, damagedLists)
  await imports.reserveNumbers(await inspection.lastNumber())
  for await (const page of byCid((after) => inspection.exportDenied(after))) await eachOf(page, (one) => copy.deny(one))
  const first: EntryPlace = { did: '', key: '' }
  const lists = pagesOf(
    (after) => inspection.exportLists(after),
    first,
    (last) => last
  )
  for await (const page of lists) {
    // Of many users at once, because writes of one wait for each other.
    const byKey = page.toSorted((one, other) => (one.key < other.key ? -1 : 1))
    await eachOf(byKey, (list) => copy.copyList(list))
  }
  for await (const page of byCid((after) => inspection.exportFiles(after))) {
    const left = page.filter(({ expiresAtSeconds }) => expiresAtSeconds > parts.nowSeconds)
    copy.copied.expiredFiles += page.length - left.length
    await eachOf(left, (file) => copy.copyFile(file))
  }
  // At last, because content that is not there is not pinned.
  for await (const pins of byCid((after) => inspection.exportPins(after))) {
    await imports.importPins(pins)
    copy.copied.pins += pins.length
  }
  return copy.copied
}

/** The steps of a copy, and what they came to. */
class ContentCopy {
  readonly copied: CopiedContents
  readonly #parts: CopyParts
  readonly #damaged: ReadonlySet<string>
  #seen = 0

  constructor(parts: CopyParts, damagedLists: readonly EntryPlace[]) {
    this.copied = { ...NOTHING, missing: new Set(), damagedLists }
    this.#parts = parts
    this.#damaged = new Set(damagedLists.map(({ did, key }) => `${did} ${key}`))
  }

  async deny({ cid, reason, atSeconds }: { cid: string; reason: string; atSeconds: number }): Promise<void> {
    const { store } = this.#parts.target
    if (await store.isTakenDown(cid)) return
    await store.takeDown(cid, reason, atSeconds)
    this.copied.denied += 1
  }

  async copyList({ did, key, etag }: EntryPlace & { etag: string }): Promise<void> {
    const place = { did, key }
    if (this.#damaged.has(`${did} ${key}`)) return
    const { source, target } = this.#parts
    const entries = await source.inspection.exportEntries(place)
    const isSame = (await target.store.describeList(place)).etag === etag
    const known = new Set(isSame ? [] : (await target.store.listEntries(place)).entries.map(({ cid }) => cid))
    const missing = isSame ? [] : entries.filter(({ cid }) => !known.has(cid))
    this.copied.knownEntries += entries.length - missing.length
    for (let start = 0; start < missing.length; start += CONTENTS_AT_ONCE) {
      await this.#copyEntries(place, missing.slice(start, start + CONTENTS_AT_ONCE))
    }
    this.#see(entries.length)
  }

  async copyFile(file: FileRow): Promise<void> {
    const { cid, expiresAtSeconds } = file
    const { nowSeconds, source, target } = this.#parts
    this.#see(1)
    const there = (await target.store.isTakenDown(cid)) ? undefined : await target.store.findFile(cid, nowSeconds)
    if (there !== undefined && there.expiresAtSeconds >= expiresAtSeconds) {
      this.copied.knownFiles += 1
      return
    }
    const [found] = await source.store.readContents([cid])
    const add: Add = (content) => target.imports.importFile({ content, expiresAtSeconds })
    if (await this.#copyContent(cid, found, add)) this.copied.files += 1
  }

  async #copyEntries(place: EntryPlace, entries: readonly Entry[]): Promise<void> {
    const contents = await this.#parts.source.store.readContents(entries.map(({ cid }) => cid))
    for (const [index, { cid, number }] of entries.entries()) {
      const add: Add = (content) => this.#parts.target.imports.importEntry({ ...place, number, content })
      if (await this.#copyContent(cid, contents[index], add)) this.copied.entries += 1
    }
  }

  async #copyContent(cid: string, found: StoredContent | undefined, add: Add): Promise<boolean> {
    const content = found && (await verified(found))
    if (content === undefined) {
      this.copied.missing.add(cid)
      return false
    }
    try {
      await add(content)
      return true
    } catch (error) {
      if (codeOf(error) !== 'ERR_TAKEN_DOWN') throw error
      this.copied.refused += 1
      return false
    }
  }

  #see(count: number): void {
    const before = this.#seen
    this.#seen += count
    if (Math.floor(this.#seen / PROGRESS) > Math.floor(before / PROGRESS)) this.#parts.onProgress?.(this.#seen)
  }
}

/** @returns undefined when the content is lost or damaged here */
async function verified(found: StoredContent): Promise<NewContent | undefined> {
  const bytes = await found.bytes().catch((error: unknown) => {
    if (!isMissing(error)) throw error
  })
  const content = bytes && newContentOf(bytes, found.jsonByteCount)
  return content?.cid === found.cid ? content : undefined
}

/** Pages, each from the place of the last item of the page before. */
async function* pagesOf<T, Place>(
  read: (after: Place) => Promise<readonly T[]>,
  first: Place,
  placeOf: (last: T) => Place
): AsyncGenerator<readonly T[], void> {
  let page = await read(first)
  for (let last = page.at(-1); last !== undefined; last = page.at(-1)) {
    yield page
    page = await read(placeOf(last))
  }
}

const byCid = <T extends { readonly cid: string }>(read: (afterCid: string) => Promise<readonly T[]>) =>
  pagesOf(read, '', ({ cid }) => cid)

/** Does something with each item, with several of them at once. */
async function eachOf<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values()
  const run = async (): Promise<void> => {
    for (const item of left) await work(item)
  }
  await Promise.all(Array.from({ length: PARALLEL }, run))
}
