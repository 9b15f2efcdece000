import { statfs, stat } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'
import { reasonOf } from '../../config/startup-error.js'
import type { VerbCaller } from './verb-caller.js'

const TRIES = 5
const PAUSE_MILLISECONDS = 300
/** SQLite writes a copy, and the log of changes gets it as well. */
const COPIES = 2.2

/**
 * Rewrites a database without what was deleted, and empties its log of changes, so that neither has bytes of it any more.
 *
 * @param isRewritten - false: only the log may have them
 * @returns what may still have them, in words
 */
export async function rewriteFile(
  { file, verbs }: { readonly file: string; readonly verbs: VerbCaller },
  isRewritten: boolean
): Promise<string[]> {
  const remains: string[] = []
  const what = isRewritten ? await tryOften(() => vacuum(file, verbs)) : undefined
  if (what !== undefined) remains.push(`${file} was not rewritten: ${what}`)
  const log = await tryOften(async () => {
    return (await verbs.call('upkeep', 'truncateLog')) ? undefined : 'something reads it'
  })
  if (log !== undefined) remains.push(`${file}-wal was not emptied: ${log}`)
  return remains
}

async function vacuum(file: string, verbs: VerbCaller): Promise<string | undefined> {
  const [{ size }, { bavail, bsize }] = await Promise.all([stat(file), statfs(file)])
  if (size * COPIES > bavail * bsize) return 'there is no space for a copy'
  await verbs.call('upkeep', 'vacuum')
  return undefined
}

/** @returns why it failed in the end; undefined when it did not */
async function tryOften(work: () => Promise<string | undefined>): Promise<string | undefined> {
  for (let tries = 1; ; tries += 1) {
    const failure = await work().catch((error: unknown) => reasonOf(error instanceof Error ? error.cause : error))
    if (failure === undefined || tries === TRIES) return failure
    await pause(PAUSE_MILLISECONDS)
  }
}
