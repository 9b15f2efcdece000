import { pipeline } from 'node:stream/promises'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Request, Response } from 'express'
import { jsonOf } from '../shared/json-text.js'
import { codeOf } from '../shared/start-error.js'
import { EntryGone } from './entry-reader.js'

/** An answer up to here is built in memory; a larger one is written as its reader takes it. */
const MAX_HELD_BYTES = 1_048_576
const CHUNK_BYTES = 65_536
/** What is read before others get their turn; small entries cost as much as a kibibyte. */
const TURN_BYTES = 262_144
const ENTRY_BYTES = 1_024

/** A JSON text that is full of content. */
export interface EntriesAnswer<Entry> {
  entries: readonly Entry[]
  /** What stands before the content of an entry. */
  before: (entry: Entry, index: number) => string
  /** What stands after the last. */
  end: string
  /** Content. It may fail, also where it did not before. */
  read: (entry: Entry) => Buffer | Promise<Buffer>
}

/** An answer of which every entry was read once, so that it can be promised. */
export interface CheckedAnswer {
  byteCount: number
  /** All of it, when it is small; else its parts, which are read once more. */
  text: Buffer | AsyncIterable<Buffer>
}

/**
 * Reads all entries of an answer, before a byte of it is sent: its length is known then, and what is lost.
 *
 * @throws whatever `read` throws
 */
export async function checkEntries<Entry>(answer: EntriesAnswer<Entry>): Promise<CheckedAnswer> {
  const held: Buffer[] = []
  let byteCount = 0
  let turnBytes = 0
  for (const [index, entry] of answer.entries.entries()) {
    const bytes = answer.read(entry)
    const piece = pieceOf(answer, index, entry, bytes instanceof Buffer ? bytes : await bytes)
    byteCount += piece.length
    if (byteCount <= MAX_HELD_BYTES) held.push(piece)
    else held.length = 0
    turnBytes += piece.length + ENTRY_BYTES
    if (turnBytes < TURN_BYTES) continue
    turnBytes = 0
    await nextTurn()
  }
  const end = Buffer.from(answer.end)
  byteCount += end.length
  return { byteCount, text: byteCount > MAX_HELD_BYTES ? chunksOf(answer) : Buffer.concat([...held, end]) }
}

/**
 * Sends a checked answer, no faster than it is taken: what is held for a reader is one entry, however large the answer.
 * An entry that has gone meanwhile breaks the connection, because its length was promised.
 */
export async function sendChecked(req: Request, res: Response, { byteCount, text }: CheckedAnswer): Promise<void> {
  res.writeHead(200, { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': byteCount })
  if (text instanceof Buffer || req.method === 'HEAD') {
    res.end(text instanceof Buffer ? text : undefined)
    return
  }
  try {
    await pipeline(text, res)
  } catch (error) {
    const isReaderGone = codeOf(error) === 'ERR_STREAM_PREMATURE_CLOSE'
    if (!isReaderGone && !(error instanceof EntryGone)) throw error
  }
}

async function* chunksOf<Entry>(answer: EntriesAnswer<Entry>): AsyncGenerator<Buffer> {
  let held: Buffer[] = []
  let heldBytes = 0
  for (const [index, entry] of answer.entries.entries()) {
    const piece = pieceOf(answer, index, entry, await answer.read(entry))
    held.push(piece)
    heldBytes += piece.length
    if (heldBytes < CHUNK_BYTES) continue
    yield Buffer.concat(held)
    held = []
    heldBytes = 0
  }
  yield Buffer.concat([...held, Buffer.from(answer.end)])
}

function pieceOf<Entry>({ before }: EntriesAnswer<Entry>, index: number, entry: Entry, content: Buffer): Buffer {
  return Buffer.concat([Buffer.from(before(entry, index)), jsonOf(content)])
}
