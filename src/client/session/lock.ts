import { browser } from '../wire/browser.js'
import type { Setting } from './options.js'
import { LOCK_SECONDS, runWithin } from '../wire/timing.js'

/**
 * Runs a function under a lock that all tabs share. After 10 s it runs without the lock, because the tab that holds it
 * may be frozen. So two tabs may run it at once, which must be safe: a refresh has its idempotency key for that.
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
  // Work that has started continues. If locks fail, as in a frame without an origin, it runs without a lock.
  return runWithin(LOCK_SECONDS, undefined, locked).catch(once)
}
