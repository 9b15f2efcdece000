import { DidAuthError } from 'express-did-auth'
import { computeClientNetwork, type ConcurrencyLimiter } from 'express-did-auth/server-kit'
import type { Response } from 'express'
import { limitMilliseconds, MAX_BUFFERED_LIST_BYTES } from '../config/time-limits.js'
import type { ByteBudget } from '../content/limits.js'
import { encodeJsonString, sendChunks, sendWhole, type Chunks } from '../content/send-content.js'
import { restoreWhileReading, type ContentRepair } from '../ipfs/content-repair.js'
import type { ContentInfo, ContentReads, EntryStore, KeyedEntry } from '../content/content-store.js'

/** Maximum size in bytes of a page, which is read from the store at once. Larger content is read in pieces. */
const PAGE_BYTES = 262_144
const PAGE_ENTRIES = 256
/** Memory in bytes of a listed entry, in addition to its key. */
const ENTRY_BYTES = 256
/** Maximum number of entries in a response that is prepared without waiting for a turn. */
const FEW_ENTRIES = 8
/** Maximum number of attempts to read a list, because a list may change during each attempt. */
const MAX_ATTEMPTS = 5
/** Time limit for all calls to the IPFS node for one response. */
const REPAIR_MILLISECONDS = limitMilliseconds.ipfsCall

/** Decoder that preserves a BOM at the beginning of content. */
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true })

/** JSON text of entries with their content. It is sent while the content is read. */
export interface EntriesText {
  entries: readonly KeyedEntry[]
  /** Returns the text before the content of an entry. */
  before: (index: number) => string
  /** Text after the last content. */
  end: string
  headers: Readonly<Record<string, string>>
}

/** Returns the JSON array of all content under a key. */
export function listText(key: string, list: { etag: string; entries: readonly ContentInfo[] }): EntriesText {
  const { etag, entries } = list
  return {
    entries: entries.map((entry) => ({ ...entry, key })),
    before: (index) => (index === 0 ? '[' : ','),
    end: entries.length === 0 ? '[]' : ']',
    headers: { ETag: etag }
  }
}

/** Returns the JSON text of every entry of an owner with its content, in the order of writing. */
export function streamBackup(did: string, entries: readonly KeyedEntry[]): EntriesText {
  const start = `{"did":${JSON.stringify(did)},"entries":[`
  return {
    entries,
    before: (index) => {
      const { key = '', cid = '' } = entries[index] ?? {}
      return `${index === 0 ? start : '},'}{"key":${JSON.stringify(key)},"id":"${cid}","content":`
    },
    end: entries.length === 0 ? `${start}]}` : '}]}',
    headers: { 'Cache-Control': 'no-store' }
  }
}

/** Store and limits that all responses share: at most a quarter for a client network, a half for its site. */
export interface ReadingParts {
  store: ContentReads & Pick<EntryStore, 'listEntries'>
  repair: ContentRepair
  /** Turns for preparing responses. */
  limiter: ConcurrencyLimiter
  /** Memory for responses that are being prepared and sent. */
  budget: ByteBudget
}

/** Source of the entries in a response. */
export interface EntriesSource {
  /** Canonical DID of the entries' owner. */
  did: string
  /** Approximate number of entries. */
  entryCount: number
  read: () => Promise<EntriesText>
}

/** Error for an entry that was removed after it was listed. The response would not be a real state of the vault. */
class EntryRemoved extends DidAuthError {
  constructor() {
    super('ERR_BUSY', { retryAfterSeconds: 1 })
  }
}

/**
 * Sends entries with their content, no faster than the client receives them. Only the list and a page of content are
 * in memory. Damage becomes an error response before the first byte is sent, and closes the connection afterwards.
 *
 * @throws ServerError ERR_CONTENT_MISSING, ERR_STORAGE; DidAuthError ERR_BUSY
 */
export async function sendEntries(parts: ReadingParts, res: Response, source: EntriesSource): Promise<void> {
  let release = (): void => undefined
  const acquire = (bytes: number): void => {
    release()
    release = acquireMemory(parts, res, bytes)
  }
  try {
    const prepare = () => readStart(parts, res, source, acquire)
    const { start, rest, headers } = await prepareAnswer(parts, res, source.entryCount, prepare)
    if (rest === undefined) {
      sendWhole(res, start, headers, release)
      return
    }
    await sendChunks(res, prependPiece(start, rest), headers)
    release()
  } catch (error) {
    release()
    throw error
  }
}

/** Acquires memory for a response from the share of the client's network. @throws DidAuthError ERR_BUSY */
export function acquireMemory({ budget }: Pick<ReadingParts, 'budget'>, res: Response, bytes: number): () => void {
  return budget.acquire(bytes, computeClientNetwork(res.req.ip ?? ''))
}

/** Prepares a response. A response with many entries waits for a turn. @throws DidAuthError ERR_BUSY */
export function prepareAnswer<T>(
  { limiter }: Pick<ReadingParts, 'limiter'>,
  res: Response,
  entryCount: number,
  prepare: () => Promise<T>
): Promise<T> {
  return entryCount <= FEW_ENTRIES ? prepare() : limiter.run(res, prepare, computeClientNetwork(res.req.ip ?? ''))
}

/** Reads and verifies a response: all of a short one, and the first part of a long one. */
async function readStart(parts: ReadingParts, res: Response, source: EntriesSource, acquire: (bytes: number) => void) {
  for (let attempt = 1; ; attempt += 1) {
    const text = await source.read()
    const { entries, headers } = text
    const contentBytes = entries.reduce((sum, { byteCount }) => sum + byteCount, 0)
    acquire(entries.length * ENTRY_BYTES + Math.min(contentBytes, MAX_BUFFERED_LIST_BYTES))
    const rest = readEntries(parts, source.did, text)
    const pieces: Uint8Array[] = []
    try {
      for (let byteCount = 0; byteCount <= MAX_BUFFERED_LIST_BYTES;) {
        // The client has disconnected, so the rest is not needed.
        if (res.destroyed) throw new DidAuthError('ERR_BUSY')
        const { value, done } = await rest.next()
        if (done === true) return { start: Buffer.concat(pieces), rest: undefined, headers }
        pieces.push(value)
        byteCount += value.length
      }
      return { start: Buffer.concat(pieces), rest, headers }
    } catch (error) {
      await rest.return()
      if (!(error instanceof EntryRemoved) || attempt === MAX_ATTEMPTS) throw error
    }
  }
}

/** Yields the text in pieces. Content is verified. Missing content is restored from the IPFS node. */
export async function* readEntries(
  { store, repair }: Pick<ReadingParts, 'store' | 'repair'>,
  did: string,
  { entries, before, end }: EntriesText
): Chunks {
  let remainingMilliseconds = REPAIR_MILLISECONDS
  const restore = async (entry: KeyedEntry): Promise<Uint8Array> => {
    const { entries: listed } = await store.listEntries({ did, key: entry.key })
    if (!listed.some(({ cid }) => cid === entry.cid)) throw new EntryRemoved()
    const startedAt = performance.now()
    const bytes = await repair(entry, remainingMilliseconds)
    remainingMilliseconds -= performance.now() - startedAt
    return bytes
  }
  for (const [start, stop] of splitIntoRanges(entries)) {
    const page = entries.slice(start, stop)
    const contents = await store.readContents(page.map(({ cid }) => cid))
    const text: string[] = []
    for (const [offset, entry] of page.entries()) {
      const content = restoreWhileReading(contents[offset], () => restore(entry))
      const opening = before(start + offset)
      if (entry.byteCount > PAGE_BYTES) yield* encodeJsonString(await content.pieces(), opening)
      else text.push(opening, JSON.stringify(utf8.decode(await content.bytes())))
    }
    if (text.length > 0) yield Buffer.from(text.join(''))
  }
  yield Buffer.from(end)
}

/** Splits entries into pages. An entry larger than a page gets its own page. */
function* splitIntoRanges(entries: readonly ContentInfo[]): Generator<[start: number, stop: number]> {
  let start = 0
  let byteCount = 0
  for (const [index, entry] of entries.entries()) {
    const isFull = index - start === PAGE_ENTRIES || byteCount + entry.byteCount > PAGE_BYTES
    if (isFull && index > start) {
      yield [start, index]
      start = index
      byteCount = 0
    }
    byteCount += entry.byteCount
  }
  if (start < entries.length) yield [start, entries.length]
}

async function* prependPiece(start: Buffer, rest: Chunks): Chunks {
  try {
    yield start
    yield* rest
  } finally {
    // Needed if the response ends before the rest was requested.
    await rest.return()
  }
}
