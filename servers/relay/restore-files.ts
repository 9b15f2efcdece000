import { setImmediate as nextRound } from 'node:timers/promises'
import { jsonOf } from '../shared/upload/json-text.js'
import type { FileStore } from './file-store.js'
import type { KeptFile } from './kept-files.js'
import { ENTRY_BYTES, type MemoryFiles } from './memory-files.js'
import { answerAround } from './relay-answer.js'

/** Files that are listed in one round. */
const LISTED_AT_ONCE = 250
/** After so long, what else there is to do has its turn. */
const ROUND_MILLISECONDS = 5

/** From where to where files come back. */
export interface RestoreParts {
  memory: MemoryFiles
  store: Pick<FileStore, 'keptSince' | 'read'>
  maxBytes: number
}

/**
 * Brings files back into memory after a restart: the newest, as many as fit. They are held by nobody, because the store
 * does not say who posted them.
 *
 * @param sinceSeconds - when the oldest was posted that may still be fetched
 */
export async function restoreFiles(parts: RestoreParts, sinceSeconds: number, signal: AbortSignal): Promise<void> {
  const newest = await listNewest(parts, sinceSeconds, signal)
  let roundSince = performance.now()
  // In the order in which they were posted, as if they were posted again.
  for (const file of newest.reverse()) {
    if (performance.now() - roundSince >= ROUND_MILLISECONDS) {
      await nextRound()
      roundSince = performance.now()
    }
    if (signal.aborted) return
    if (!parts.memory.takeTurn(file.cid)) restoreFile(parts, file)
  }
}

/** Brings one file back, if it is undamaged and fits at all. */
export function restoreFile(
  { memory, store }: Pick<RestoreParts, 'memory' | 'store'>,
  { cid, byteCount, keptAtSeconds }: KeptFile
): void {
  const bytes = store.read(cid)
  if (bytes === undefined) return
  const answer = answerAround(jsonOf(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)))
  const file = { cid, byteCount, answer }
  if (memory.canHold(file)) memory.keep(file, undefined, keptAtSeconds)
}

/** The newest first, as many as fit. */
async function listNewest(
  { store, maxBytes }: RestoreParts,
  sinceSeconds: number,
  signal: AbortSignal
): Promise<KeptFile[]> {
  const newest: KeptFile[] = []
  let room = maxBytes
  for (;;) {
    const page = store.keptSince(sinceSeconds, LISTED_AT_ONCE, newest.at(-1))
    for (const file of page) {
      room -= file.byteCount + ENTRY_BYTES
      if (room < 0) return newest
      newest.push(file)
    }
    await nextRound()
    if (page.length < LISTED_AT_ONCE || signal.aborted) return newest
  }
}
