import { browser } from './browser.js'
import { parseFields, parseJson } from './json.js'
import { hexOf, randomBytes } from './seal.js'
import type { Setting } from './options.js'
import { pause, unlessAborted, withTimeout } from './timing.js'

/** How long a lock is waited for, and how long a lease is good. */
const LOCK_SECONDS = 10
/** After it a lease that was written is read again: another tab may have written at the same time. */
const SETTLING_SECONDS = 0.05

/**
 * Runs something while no other tab runs it under the same name. It waits at most 10 s, because the tab that has the
 * lock may be frozen: what runs has to be safe beside it, as a refresh with its idempotency key is.
 */
export function withLock<T>(setting: Setting, run: () => Promise<T>): Promise<T> {
  const { name, storage } = setting
  if (storage.isPrivate) return run()
  let started: Promise<T> | undefined
  const once = (): Promise<T> => (started ??= run())
  const locks = browser.navigator?.locks
  const locked = async (): Promise<T> => {
    if (storage.lock) return storage.lock(name, once)
    return locks ? locks.request(name, once) : withLease(setting, () => !started, once)
  }
  // Work that has started continues. Where locks fail, as in a frame without an origin, it runs without one.
  return unlessAborted(locked(), withTimeout(LOCK_SECONDS)).catch(once)
}

/** A lock made of a value in the storage: a tab that reads its own value back has it, until that is too old. */
async function withLease<T>(
  { name, storage, wallSeconds }: Setting,
  waits: () => boolean,
  run: () => Promise<T>
): Promise<T> {
  const key = `${name} lease`
  const own = randomText()
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

/** 128 random bits, in hex. */
export function randomText(): string {
  return hexOf(randomBytes(16))
}
