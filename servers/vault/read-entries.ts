import { DidAuthError } from 'express-did-auth'
import { escapeJson } from '../http/json-string.js'
import { ServerError } from '../http/server-error.js'
import type { ContentRepair } from '../ipfs/content-repair.js'
import type { ContentInfo, ContentReads, EntryStore, StoredContent } from '../storage/content-store.js'
import { isMissing } from '../storage/storage-error.js'
import type { EntriesAnswer } from './vault-answers.js'

/** What is read from the store at once: so much content, or so many entries. Larger content is read in pieces. */
const PAGE_BYTES = 262_144
const PAGE_ENTRIES = 256
/** For the IPFS node, in all: each of many contents may be missing. */
const REPAIR_MILLISECONDS = 10_000

const QUOTE = Buffer.from('"')

/** What entries are read from. */
export interface EntryReaderParts {
  store: ContentReads & Pick<EntryStore, 'listEntries'>
  repair: Pick<ContentRepair, 'read'>
}

/** An entry was removed after it was listed, so that no moment of the vault can be shown. */
export class EntryRemoved extends DidAuthError {
  constructor() {
    super('ERR_BUSY', { retryAfterSeconds: 1 })
  }
}

/** Reads the entries of one answer: content is verified, and restored from the IPFS node where it is missing. */
export class EntryReader {
  readonly #parts: EntryReaderParts
  readonly #did: string
  readonly #answer: EntriesAnswer
  #leftMilliseconds = REPAIR_MILLISECONDS

  /** @param did - canonical, whose entries they are */
  constructor(parts: EntryReaderParts, did: string, answer: EntriesAnswer) {
    this.#parts = parts
    this.#did = did
    this.#answer = answer
  }

  /**
   * The text of the answer, in pieces.
   *
   * @throws EntryRemoved; ServerError ERR_CONTENT_MISSING, ERR_STORAGE
   */
  async *text(): AsyncGenerator<Buffer, void, undefined> {
    const { entries, hasContent, before, end } = this.#answer
    for (const [start, stop] of pagesOf(this.#answer)) {
      const page = entries.slice(start, stop)
      const contents = hasContent ? await this.#parts.store.readContents(page.map(({ cid }) => cid)) : []
      const [first] = page
      if (hasContent && first !== undefined && first.byteCount > PAGE_BYTES) {
        yield* this.#large(start, first, contents[0])
        continue
      }
      const text: Uint8Array[] = []
      for (const [offset, entry] of page.entries()) {
        text.push(Buffer.from(before(start + offset)))
        if (!hasContent) continue
        text.push(QUOTE, escapeJson(await this.#whole(start + offset, entry, contents[offset])), QUOTE)
      }
      yield Buffer.concat(text)
    }
    yield Buffer.from(end)
  }

  async #whole(index: number, entry: ContentInfo, content: StoredContent | undefined): Promise<Uint8Array> {
    try {
      if (content === undefined) throw new ServerError('ERR_CONTENT_MISSING')
      return await content.bytes()
    } catch (error) {
      return this.#restore(error, index, entry)
    }
  }

  async *#large(
    index: number,
    entry: ContentInfo,
    content: StoredContent | undefined
  ): AsyncGenerator<Buffer, void, undefined> {
    // Goes with the first piece, so that nothing is sent before content was verified.
    let start = this.#answer.before(index) + QUOTE.toString()
    let sent = 0
    const next = (piece: Uint8Array): Buffer => {
      const text = Buffer.concat([Buffer.from(start), escapeJson(piece)])
      start = ''
      sent += piece.length
      return text
    }
    try {
      if (content === undefined) throw new ServerError('ERR_CONTENT_MISSING')
      for await (const piece of await content.pieces()) yield next(piece)
    } catch (error) {
      const bytes = await this.#restore(error, index, entry)
      // Every piece that was sent was verified.
      yield next(bytes.subarray(sent))
    }
    yield QUOTE
  }

  async #restore(error: unknown, index: number, entry: ContentInfo): Promise<Uint8Array> {
    if (!isMissing(error)) throw error
    const { store, repair } = this.#parts
    const { entries } = await store.listEntries({ did: this.#did, key: this.#answer.keyOf(index) })
    if (!entries.some(({ cid }) => cid === entry.cid)) throw new EntryRemoved()
    const startedAt = performance.now()
    const bytes = await repair.read(entry, this.#leftMilliseconds)
    this.#leftMilliseconds -= performance.now() - startedAt
    return bytes
  }
}

function* pagesOf({ entries, hasContent }: EntriesAnswer): Generator<[start: number, stop: number]> {
  let start = 0
  let byteCount = 0
  for (const [index, entry] of entries.entries()) {
    const isFull = index - start === PAGE_ENTRIES || (hasContent && byteCount + entry.byteCount > PAGE_BYTES)
    if (isFull && index > start) {
      yield [start, index]
      start = index
      byteCount = 0
    }
    byteCount += entry.byteCount
  }
  if (start < entries.length) yield [start, entries.length]
}
