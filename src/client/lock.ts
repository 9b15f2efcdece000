import { browser } from './browser.js'
import type { Setting } from './options.js'
import { LOCK_SECONDS, raceWithAbort, createTimeoutSignal } from './timing.js'

/**
 * Runs something while no other tab runs it under the same name. It waits at most 10 s, because the tab that has the
 * lock may be frozen: what runs has to be safe next to it, as a refresh with its idempotency key is.
 */
export function runWithLock<T>(setting: Setting, run: () => Promise<T>): Promise<T> {
  const { name, storage } = setting
  if (storage.isPrivate) return run()
  let started: Promise<T> | undefined
  const once = (): Promise<T> => (started ??= run())
  const locks = browser.navigator?.locks
  const locked = async (): Promise<T> => {
    if (storage.lock) return storage.lock(name, once)
    if (locks) return locks.request(name, once)
    const { runWithLease } = await import('./lease.js')
    return runWithLease(setting, () => !started, once)
  }
  // Work that has started continues. Where locks fail, as in a frame without an origin, it runs without one.
  return raceWithAbort(locked(), createTimeoutSignal(LOCK_SECONDS)).catch(once)
}
