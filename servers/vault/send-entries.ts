import { DidAuthError } from 'express-did-auth'
import type { Request, Response } from 'express'
import type { ByteBudget, ConcurrencyLimiter } from '../http/limits.js'
import { sendJson } from '../http/send-content.js'
import { EntryReader, EntryRemoved, type EntryReaderParts } from './read-entries.js'
import type { EntriesAnswer } from './vault-answers.js'

/** An answer up to here is read to its end before a byte of it is sent; of a larger one, the first piece. */
const MAX_BUFFERED_BYTES = 1_048_576
/** What an entry that is listed takes in memory, beside its key. */
const ENTRY_BYTES = 256
/** So few entries are read without waiting for those who read many. */
const FEW_ENTRIES = 8
/** Of a key that changes all the time there may be no moment in which all of it can be read. */
const MAX_ATTEMPTS = 5

/** What the readers of all answers share. */
export interface SendEntriesParts extends EntryReaderParts {
  /** Answers that are being prepared. */
  limiter: ConcurrencyLimiter
  /** Memory of answers that are being prepared and sent. */
  budget: ByteBudget
}

/** Where an answer comes from. */
export interface EntriesSource {
  /** Canonical, whose entries they are. */
  did: string
  /** How many there are about. */
  entryCount: number
  /** Lists them as they are now, and says what stands around them. */
  list: () => Promise<{ answer: EntriesAnswer; etag?: string }>
}

interface PreparedAnswer {
  answer: EntriesAnswer
  etag?: string
  /** What has been read and verified: all of it, or the first piece. */
  start: Buffer
  rest: AsyncGenerator<Buffer, void, undefined>
}

/**
 * Sends entries with their content, no faster than the client receives them: the list and a page of content are in memory
 * for it, however large the answer. Damage that is found before the head is an answer; later it breaks the connection,
 * because the length was promised.
 *
 * @throws ServerError ERR_CONTENT_MISSING, ERR_STORAGE; DidAuthError ERR_BUSY
 */
export async function sendEntries(
  parts: SendEntriesParts,
  req: Request,
  res: Response,
  source: EntriesSource
): Promise<void> {
  let release = (): void => undefined
  const acquire = (bytes: number): void => {
    release()
    release = parts.budget.acquire(bytes)
  }
  const prepare = (): Promise<PreparedAnswer> => prepareAnswer(parts, res, source, acquire)
  try {
    const { answer, etag, start, rest } = await (source.entryCount <= FEW_ENTRIES
      ? prepare()
      : parts.limiter.run(res, prepare))
    try {
      const chunks = startingWith(start, rest)
      await sendJson(req, res, { byteCount: answer.byteCount, chunks }, etag === undefined ? {} : { ETag: etag })
    } finally {
      await rest.return()
    }
  } finally {
    release()
  }
}

async function prepareAnswer(
  parts: SendEntriesParts,
  res: Response,
  { did, list }: EntriesSource,
  acquire: (bytes: number) => void
): Promise<PreparedAnswer> {
  for (let attempt = 1; ; attempt += 1) {
    const { answer, etag } = await list()
    const { byteCount, entries } = answer
    acquire(entries.length * ENTRY_BYTES + Math.min(byteCount, MAX_BUFFERED_BYTES))
    const rest = new EntryReader(parts, did, answer).text()
    const pieces: Buffer[] = []
    try {
      do {
        // The client has disconnected: the rest would be read for no user.
        if (res.destroyed) throw new DidAuthError('ERR_BUSY')
        const { value, done } = await rest.next()
        if (done === true) break
        pieces.push(value)
      } while (byteCount <= MAX_BUFFERED_BYTES)
      return { answer, start: Buffer.concat(pieces), rest, ...(etag !== undefined && { etag }) }
    } catch (error) {
      await rest.return()
      if (!(error instanceof EntryRemoved) || attempt === MAX_ATTEMPTS) throw error
    }
  }
}

async function* startingWith(
  start: Buffer,
  rest: AsyncGenerator<Buffer, void, undefined>
): AsyncGenerator<Buffer, void, undefined> {
  yield start
  yield* rest
}
