import { browser } from './browser.js'
import { parseJson } from './service-calls.js'
import type { ClientStorage } from './storage.js'
import type { Timer } from './timing.js'
import { fieldOf } from './wallet.js'

/** How long a lock is waited for, and how long a lease is good. */
const LOCK_SECONDS = 10
/** After it a lease that was written is read again: another tab may have written at the same time. */
const SETTLING_SECONDS = 0.05

type Lock = <T>(run: () => Promise<T>) => Promise<T>

/**
 * Runs something while no other tab runs it under the same name, and after 10 s without further waiting: the tab that has
 * the lock may be frozen. What runs then has to be safe beside it, as a refresh with its idempotency key is.
 */
export async function withLock<T>(
  { name, storage, timer }: { name: string; storage: ClientStorage; timer: Timer },
  run: () => Promise<T>
): Promise<T> {
  if (storage.isPrivate) return run()
  const entered = new AbortController()
  let started: Promise<T> | undefined
  const once = (): Promise<T> => {
    entered.abort()
    return (started ??= run())
  }
  const lock = lockOf(name, storage, timer, entered.signal)
  // A lock that fails, as it does in a frame without an origin, is as good as none.
  return Promise.race([lock(once).catch(once), timer.wait(LOCK_SECONDS, entered.signal).then(once)])
}

function lockOf(name: string, storage: ClientStorage, timer: Timer, entered: AbortSignal): Lock {
  if (storage.lock) return async (run) => storage.lock?.(name, run) ?? run()
  const locks = browser.navigator?.locks
  return locks ? async (run) => locks.request(name, run) : lease(`${name} lease`, storage, timer, entered)
}

/** A lock made of a value in the storage: who reads the own value back has it, until it is deleted or too old. */
function lease(key: string, storage: ClientStorage, timer: Timer, entered: AbortSignal): Lock {
  const id = randomText()
  const read = async (): Promise<unknown> => parseJson(await storage.get(key))
  return async (run) => {
    while (!entered.aborted) {
      const until = Number(fieldOf(await read(), 'until') ?? 0)
      const secondsLeft = until - timer.wallSeconds()
      const isTaken = secondsLeft > 0 && secondsLeft <= LOCK_SECONDS
      if (!isTaken) await storage.set(key, JSON.stringify({ id, until: timer.wallSeconds() + LOCK_SECONDS }))
      await timer.wait(SETTLING_SECONDS, entered)
      if (!isTaken && fieldOf(await read(), 'id') === id) break
    }
    try {
      return await run()
    } finally {
      if (fieldOf(await read(), 'id') === id) await storage.delete(key)
    }
  }
}

/** 128 random bits, as 22 characters of base64url. */
export function randomText(): string {
  return btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(16))))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .slice(0, 22)
}
