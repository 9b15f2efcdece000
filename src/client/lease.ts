import { parseFields, parseJson } from './json.js'
import type { Setting } from './options.js'
import { createRandomText } from './seal.js'
import { LOCK_SECONDS, pause } from './timing.js'

/** Pause after which a written lease is read again, because another tab may have written at the same time. */
const SETTLING_SECONDS = 0.05

/**
 * Runs something under a lock that is a value in the storage: a tab that reads its own value back has the lock until
 * the value is too old. Loaded only where there are no `navigator.locks`.
 */
export async function runWithLease<T>(
  { name, storage, wallSeconds }: Setting,
  waits: () => boolean,
  run: () => Promise<T>
): Promise<T> {
  const key = `${name} lease`
  const own = createRandomText()
  const read = async (): Promise<Readonly<Record<string, unknown>>> => parseFields(parseJson(await storage.get(key)))
  while (waits()) {
    const secondsLeft = Number((await read()).until ?? 0) - wallSeconds()
    const isFree = secondsLeft <= 0 || secondsLeft > LOCK_SECONDS
    if (isFree) await storage.set(key, JSON.stringify({ own, until: wallSeconds() + LOCK_SECONDS }))
    await pause(SETTLING_SECONDS)
    if (isFree && (await read()).own === own) break
  }
  return run().finally(async () => {
    if ((await read()).own === own) await storage.delete(key)
  })
}
