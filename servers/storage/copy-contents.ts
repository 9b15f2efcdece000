import type { ContentExport, ContentImport, ContentInspection } from './content-inspection.js'
import type { ContentStore, EntryPlace, NewContent, StoredContent } from './content-store.js'
import { codeOf } from '../config/startup-error.js'
import type { FileRow } from './file-post.js'
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

/** What is copied. Nothing writes to it meanwhile. */
export interface CopySource {
  readonly store: Pick<ContentStore, 'readContents'>
  readonly inspection: Pick<ContentInspection, 'recount'> & ContentExport
}

/** Where it is copied to. */
export interface CopyTarget {
  readonly store: Pick<ContentStore, 'describeList' | 'listEntries' | 'findFile' | 'isTakenDown' | 'takeDown'>
  readonly imports: ContentImport
}

interface CopyOptions {
  readonly nowSeconds: number
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
 * @param options.onProgress - gets how many entries and files there were so far, now and then
 * @throws as the verbs of the stores; nothing that was copied until then is lost
 */
export async function copyContents(
  source: CopySource,
  target: CopyTarget,
  options: CopyOptions
): Promise<CopiedContents> {
  const { inspection } = source
  const { damagedLists } = await inspection.recount({ isDryRun: true })
  const copy = new ContentCopy(source, target, options, damagedLists)
  await target.imports.reserveNumbers(await inspection.lastNumber())
  for await (const page of byCid((after) => inspection.exportDenied(after))) await eachOf(page, (one) => copy.deny(one))
  const lists = pagesOf(
    (after) => inspection.exportLists(after),
    { did: '', key: '' },
    (last): EntryPlace => last
  )
  for await (const page of lists) await eachOf(page, (list) => copy.copyList(list))
  for await (const page of byCid((after) => inspection.exportFiles(after))) {
    await eachOf(page, (file) => copy.copyFile(file))
  }
  // At last, because content that is not there is not pinned.
  for await (const pins of byCid((after) => inspection.exportPins(after))) {
    await target.imports.importPins(pins)
    copy.copied.pins += pins.length
  }
  return copy.copied
}

/** The steps of a copy, and what they came to. */
class ContentCopy {
  readonly copied: CopiedContents
  readonly #source: CopySource
  readonly #target: CopyTarget
  readonly #options: CopyOptions
  readonly #damaged: ReadonlySet<string>
  #seen = 0

  constructor(source: CopySource, target: CopyTarget, options: CopyOptions, damagedLists: readonly EntryPlace[]) {
    this.copied = { ...NOTHING, missing: new Set(), damagedLists }
    this.#source = source
    this.#target = target
    this.#options = options
    this.#damaged = new Set(damagedLists.map(nameOf))
  }

  async deny({ cid, reason, atSeconds }: { cid: string; reason: string; atSeconds: number }): Promise<void> {
    if (await this.#target.store.isTakenDown(cid)) return
    await this.#target.store.takeDown(cid, reason, atSeconds)
    this.copied.denied += 1
  }

  async copyList({ did, key, etag }: EntryPlace & { etag: string }): Promise<void> {
    const place = { did, key }
    if (this.#damaged.has(nameOf(place))) return
    const entries = await this.#source.inspection.exportEntries(place)
    const there = await this.#target.store.describeList(place)
    const isSame = there.etag === etag
    const known = isSame || there.entryCount === 0 ? [] : (await this.#target.store.listEntries(place)).entries
    const cids = new Set(known.map(({ cid }) => cid))
    const missing = isSame ? [] : entries.filter(({ cid }) => !cids.has(cid))
    this.copied.knownEntries += entries.length - missing.length
    for (let start = 0; start < missing.length; start += CONTENTS_AT_ONCE) {
      await this.#copyEntries(place, missing.slice(start, start + CONTENTS_AT_ONCE))
    }
    this.#see(entries.length)
  }

  async copyFile(file: FileRow): Promise<void> {
    const { cid, expiresAtSeconds } = file
    const { nowSeconds } = this.#options
    const { store, imports } = this.#target
    this.#see(1)
    if (expiresAtSeconds <= nowSeconds) {
      this.copied.expiredFiles += 1
      return
    }
    const there = (await store.isTakenDown(cid)) ? undefined : await store.findFile(cid, nowSeconds)
    if (there !== undefined && there.expiresAtSeconds >= expiresAtSeconds) {
      this.copied.knownFiles += 1
      return
    }
    const [found] = await this.#source.store.readContents([cid])
    const add: Add = (content) => imports.importFile({ content, expiresAtSeconds })
    if (await this.#copyContent(cid, found, add)) this.copied.files += 1
  }

  async #copyEntries(place: EntryPlace, entries: readonly Entry[]): Promise<void> {
    const contents = await this.#source.store.readContents(entries.map(({ cid }) => cid))
    for (const [index, { cid, number }] of entries.entries()) {
      const add: Add = (content) => this.#target.imports.importEntry({ ...place, number, content })
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
    if (Math.floor(this.#seen / PROGRESS) > Math.floor(before / PROGRESS)) this.#options.onProgress?.(this.#seen)
  }
}

const nameOf = ({ did, key }: EntryPlace): string => `${did} ${key}`

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

function byCid<T extends { readonly cid: string }>(
  read: (afterCid: string) => Promise<readonly T[]>
): AsyncGenerator<readonly T[], void> {
  return pagesOf(read, '', ({ cid }) => cid)
}

/** Does something with each item, with several of them at once. */
async function eachOf<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values()
  const run = async (): Promise<void> => {
    for (const item of left) await work(item)
  }
  await Promise.all(Array.from({ length: PARALLEL }, run))
}
