import { codeOf } from '../config/startup-error.js'
import type { EntryPlace, NewContent, StoredContent } from './content-store.js'
import type { FileRow } from './sql/copy-verbs.js'
import { pagesOf } from './sql/pages.js'
import type { OpenContentStore } from './sql/sql-content-store.js'
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
  readonly source: Pick<OpenContentStore, 'store' | 'inspection'>
  readonly target: Pick<OpenContentStore, 'store' | 'inspection'>
  readonly nowSeconds: number
  /** Gets how many entries and files there were so far, now and then. */
  readonly onProgress?: (count: number) => void
}

/** What is under way at once: enough that a trip to the database and the disk do not wait for each other. */
const PARALLEL = 8
const CONTENTS_AT_ONCE = 64
const PROGRESS = 10_000

/**
 * Copies all that a store has to another one, which servers may use at the same time. Entries keep their numbers, and
 * so lists keep their order and their ETags. Each content is verified by its cid. Run again, it adds what is new.
 *
 * @throws as the verbs of the stores; nothing that was copied until then is lost
 */
export async function copyContents({ source, target, nowSeconds, onProgress }: CopyParts): Promise<CopiedContents> {
  const { inspection } = source
  const { damagedLists } = await inspection.recount({ isDryRun: true })
  const damaged = new Set(damagedLists.map(({ did, key }) => `${did} ${key}`))
  const copied: CopiedContents = { ...NOTHING, missing: new Set(), damagedLists }
  let seen = 0

  const see = (count: number): void => {
    const before = seen
    seen += count
    if (Math.floor(seen / PROGRESS) > Math.floor(before / PROGRESS)) onProgress?.(seen)
  }

  const copyContent = async (
    cid: string,
    found: StoredContent | undefined,
    add: (content: NewContent) => Promise<void>
  ): Promise<boolean> => {
    const content = found && (await verified(found))
    if (content === undefined) {
      copied.missing.add(cid)
      return false
    }
    try {
      await add(content)
      return true
    } catch (error) {
      if (codeOf(error) !== 'ERR_TAKEN_DOWN') throw error
      copied.refused += 1
      return false
    }
  }

  const copyList = async ({ did, key, etag }: EntryPlace & { etag: string }): Promise<void> => {
    if (damaged.has(`${did} ${key}`)) return
    const place = { did, key }
    const entries = await inspection.exportEntries(place)
    const isSame = (await target.store.describeList(place)).etag === etag
    const known = new Set(isSame ? [] : (await target.store.listEntries(place)).entries.map(({ cid }) => cid))
    const missing = isSame ? [] : entries.filter(({ cid }) => !known.has(cid))
    copied.knownEntries += entries.length - missing.length
    for (let start = 0; start < missing.length; start += CONTENTS_AT_ONCE) {
      const part = missing.slice(start, start + CONTENTS_AT_ONCE)
      const contents = await source.store.readContents(part.map(({ cid }) => cid))
      for (const [index, { cid, number }] of part.entries()) {
        const add = (content: NewContent): Promise<void> => target.inspection.importEntry({ ...place, number, content })
        if (await copyContent(cid, contents[index], add)) copied.entries += 1
      }
    }
    see(entries.length)
  }

  const copyFile = async ({ cid, expiresAtSeconds }: FileRow): Promise<void> => {
    see(1)
    const there = (await target.store.isTakenDown(cid)) ? undefined : await target.store.findFile(cid, nowSeconds)
    if (there !== undefined && there.expiresAtSeconds >= expiresAtSeconds) {
      copied.knownFiles += 1
      return
    }
    const [found] = await source.store.readContents([cid])
    const add = (content: NewContent): Promise<void> => target.inspection.importFile(content, expiresAtSeconds)
    if (await copyContent(cid, found, add)) copied.files += 1
  }

  await target.inspection.reserveNumbers(await inspection.lastNumber())
  for await (const { items } of pagesOf('', inspection.exportDenied)) {
    await eachOf(items, async ({ cid, reason, atSeconds }) => {
      if (await target.store.isTakenDown(cid)) return
      await target.store.takeDown(cid, reason, atSeconds)
      copied.denied += 1
    })
  }
  for await (const { items } of pagesOf({ did: '', key: '' }, inspection.exportLists)) {
    // Of many users at once, because writes of one wait for each other.
    const byKey = items.toSorted((one, other) => (one.key < other.key ? -1 : 1))
    await eachOf(byKey, copyList)
  }
  for await (const { items } of pagesOf('', inspection.exportFiles)) {
    const left = items.filter(({ expiresAtSeconds }) => expiresAtSeconds > nowSeconds)
    copied.expiredFiles += items.length - left.length
    await eachOf(left, copyFile)
  }
  // At last, because content that is not there is not pinned.
  for await (const { items: pins } of pagesOf('', inspection.exportPins)) {
    await target.inspection.importPins(pins)
    copied.pins += pins.length
  }
  return copied
}

/** @returns undefined when the content is lost or damaged here */
async function verified(found: StoredContent): Promise<NewContent | undefined> {
  const bytes = await found.bytes().catch((error: unknown) => {
    if (!isMissing(error)) throw error
  })
  const content = bytes && newContentOf(bytes)
  return content?.cid === found.cid ? content : undefined
}

/** Does something with each item, with several of them at once. */
async function eachOf<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values()
  const run = async (): Promise<void> => {
    for (const item of left) await work(item)
  }
  await Promise.all(Array.from({ length: PARALLEL }, run))
}
