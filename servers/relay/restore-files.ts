import { setImmediate as nextRound } from 'node:timers/promises'
import { jsonOf } from '../shared/upload/json-text.js'
import type { FileStore } from './file-store.js'
import { ENTRY_BYTES, type MemoryFiles } from './memory-files.js'
import { answerAround } from './relay-answer.js'

/**
 * Brings files back into memory after a restart: the newest, as many as fit. They are held by nobody, because the store
 * does not say who posted them.
 *
 * @param sinceSeconds - when the oldest was posted that may still be fetched
 */
export async function restoreFiles(
  { memory, store, maxBytes }: { memory: MemoryFiles; store: FileStore; maxBytes: number },
  sinceSeconds: number,
  signal: AbortSignal
): Promise<void> {
  let room = maxBytes
  const newest = store.keptSince(sinceSeconds, Math.ceil(maxBytes / ENTRY_BYTES)).filter(({ byteCount }) => {
    room -= byteCount + ENTRY_BYTES
    return room >= 0
  })
  // In the order in which they were posted, as if they were posted again.
  for (const { cid, byteCount, keptAtSeconds } of newest.toReversed()) {
    await nextRound()
    if (signal.aborted) return
    const bytes = memory.has(cid) ? undefined : store.read(cid)
    if (bytes === undefined) continue
    const answer = answerAround(jsonOf(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)))
    const file = { cid, byteCount, answer }
    if (memory.canHold(file)) memory.keep(file, undefined, keptAtSeconds)
  }
}
