import { pipeline } from 'node:stream/promises'
import { DidAuthError } from 'express-did-auth'
import type { Request, Response } from 'express'
import { jsonOf } from '../../shared/upload/json-text.js'
import { codeOf } from '../../shared/environment/start-error.js'
import type { AnswerRoom, Holder } from './answer-room.js'
import { EntryGone } from './entry-reader.js'
import { ReaderGone, type Reader, type ReadingGate } from './reading-gate.js'
import type { ReadingTurns } from './reading-turns.js'

/** An answer up to here is built in memory; a larger one is written as its reader takes it. */
const MAX_HELD_BYTES = 1_048_576
const CHUNK_BYTES = 65_536
/** What an entry costs at least, in time as if it were as large. */
const ENTRY_BYTES = 1_024

/** What the readers of all answers share. */
export interface SharedReading {
  turns: ReadingTurns
  gate: ReadingGate
  room: AnswerRoom
}

/** A JSON text of entries, which may be thousands. */
export interface EntriesAnswer<Entry> {
  entries: readonly Entry[]
  /** What the list of them holds in memory, without content, until the last is sent. */
  listedBytes: number
  /** What stands before the content of an entry. */
  before: (entry: Entry, index: number) => string
  /** What stands after the last. */
  end: string
  /** Content, where the answer shows it. It may fail, also where it did not before. */
  read?: (entry: Entry) => Buffer | Promise<Buffer>
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
 * @throws DidAuthError ERR_BUSY when there is no room to hold what is being sent; ReaderGone; whatever `read` throws
 */
export async function checkEntries<Entry>(
  shared: SharedReading,
  reader: Reader & Holder,
  answer: EntriesAnswer<Entry>
): Promise<CheckedAnswer> {
  const { turns, gate, room } = shared
  const { listedBytes } = answer
  const held: Buffer[] = []
  let isHeld = true
  let byteCount = 0
  let largest = 0
  holdOrRefuse(room, reader, listedBytes)
  for (const [index, entry] of answer.entries.entries()) {
    if (turns.isOver) await turns.next()
    if (reader.destroyed) throw new ReaderGone()
    const content = answer.read?.(entry)
    const read = content instanceof Promise ? await gate.outside(reader, content) : content
    const piece = pieceOf(answer, index, entry, read)
    turns.spend(piece.length + ENTRY_BYTES)
    byteCount += piece.length
    largest = Math.max(largest, piece.length)
    isHeld &&= byteCount <= MAX_HELD_BYTES && room.hold(reader, listedBytes + byteCount)
    if (isHeld) {
      held.push(piece)
      continue
    }
    held.length = 0
    holdOrRefuse(room, reader, listedBytes + largest)
  }
  const end = Buffer.from(answer.end)
  byteCount += end.length
  if (isHeld && byteCount <= MAX_HELD_BYTES) {
    room.hold(reader, byteCount)
    return { byteCount, text: Buffer.concat([...held, end]) }
  }
  holdOrRefuse(room, reader, listedBytes + largest)
  return { byteCount, text: chunksOf(shared, reader, answer) }
}

/**
 * Sends a checked answer, no faster than it is taken: what is held for a reader is the list and one entry, however large
 * the answer. An entry that has gone meanwhile breaks the connection, because its length was promised.
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
    const isReaderGone = error instanceof ReaderGone || codeOf(error) === 'ERR_STREAM_PREMATURE_CLOSE'
    if (!isReaderGone && !(error instanceof EntryGone)) throw error
  }
}

async function* chunksOf<Entry>(
  { turns, room }: SharedReading,
  reader: Reader & Holder,
  answer: EntriesAnswer<Entry>
): AsyncGenerator<Buffer> {
  let held: Buffer[] = []
  let heldBytes = 0
  for (const [index, entry] of answer.entries.entries()) {
    if (turns.isOver) await turns.next()
    if (reader.destroyed) throw new ReaderGone()
    const piece = pieceOf(answer, index, entry, await answer.read?.(entry))
    turns.spend(piece.length + ENTRY_BYTES)
    held.push(piece)
    heldBytes += piece.length
    if (heldBytes < CHUNK_BYTES) continue
    yield Buffer.concat(held)
    room.renew(reader)
    held = []
    heldBytes = 0
  }
  yield Buffer.concat([...held, Buffer.from(answer.end)])
}

function pieceOf<Entry>(
  { before }: EntriesAnswer<Entry>,
  index: number,
  entry: Entry,
  content: Buffer | undefined
): Buffer {
  const start = Buffer.from(before(entry, index))
  return content === undefined ? start : Buffer.concat([start, jsonOf(content)])
}

function holdOrRefuse(room: AnswerRoom, reader: Holder, bytes: number): void {
  if (!room.hold(reader, bytes)) throw new DidAuthError('ERR_BUSY', { retryAfterSeconds: 1 })
}
