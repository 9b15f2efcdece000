import { parseFields, parseJson } from '../wire/json.js'
import type { Setting } from './options.js'
import { createRandomText } from '../wire/seal.js'
import { LOCK_SECONDS, pause } from '../wire/timing.js'

/** Pause before a written lease is read back, in case another tab wrote at the same time. */
const SETTLING_SECONDS = 0.05

/**
 * Runs a function under a lease, which is a value in the storage. A tab holds the lease if it reads its own value back
 * after the pause, until the value expires. Loaded only without `navigator.locks`.
 *
 * @param waits - whether the caller still waits for the lease
 */
export async function runWithLease<T>(
  { name, storage, wallSeconds }: Setting,
  waits: () => boolean,
  run: () => Promise<T>
): Promise<T> {
  const key = `${name} lease`
  const id = createRandomText()
  const read = async (): Promise<Readonly<Record<string, unknown>>> => parseFields(parseJson(await storage.get(key)))
  while (waits()) {
    const secondsLeft = Number((await read()).until ?? 0) - wallSeconds()
    const isFree = secondsLeft <= 0 || secondsLeft > LOCK_SECONDS
    if (isFree) await storage.set(key, JSON.stringify({ id, until: wallSeconds() + LOCK_SECONDS }))
    await pause(SETTLING_SECONDS)
    if (isFree && (await read()).id === id) break
  }
  return run().finally(async () => {
    if ((await read()).id === id) await storage.delete(key)
  })
}
