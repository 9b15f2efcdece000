import type { ChallengeFlow, ChallengeUseStore, Store } from '../../ports.js'
import { USES_OUTLIVE_WINDOW_SECONDS } from '../../protocol/challenge.js'
import { SweepClock } from '../sweep-clock.js'
import { createMemoryQuotas } from './memory-quotas.js'
import { createMemorySessions } from './memory-sessions.js'

/** Bounds of a memory store. */
export interface MemoryStoreOptions {
  /**
   * Maximum number of sessions, and of records of ended ones. Beyond it, sessions that were never refreshed are evicted
   * first, and the oldest records are deleted. Default 1,000,000.
   */
  maxSessions?: number
  /** Maximum number of challenge uses. Beyond it, logins are refused until a window ends. Default 1,000,000. */
  maxChallengeUses?: number
  /** Maximum number of quotas of each kind. Beyond it, the one that began first is deleted. Default 100,000. */
  maxQuotas?: number
  /** Reads a monotonic clock, in seconds, for tests. Default: `performance.now()`. */
  monotonicSeconds?: () => number
}

/** Stores that hold sessions in memory, and therefore lose them at a restart. */
export const memoryStores = new WeakSet()

/**
 * Creates a store in the memory of this process, bounded in count and time. A restart deletes it, and with it all
 * sessions. A session needs up to 400 bytes, and up to 800 once it has been refreshed 16 times.
 *
 * @example
 * setupDidAuth(app, { ...config, store: memoryStore({ maxSessions: 10_000 }) })
 */
export function memoryStore(options: MemoryStoreOptions = {}): Store {
  const { maxSessions = 1_000_000, maxChallengeUses = 1_000_000, maxQuotas = 100_000, monotonicSeconds } = options
  const clock = new SweepClock(monotonicSeconds)
  const store: Store = {
    ...createMemorySessions(maxSessions, clock),
    ...createChallengeUses(maxChallengeUses, clock),
    ...createMemoryQuotas(maxQuotas),
    // Memory is always available, and there is nothing to release.
    ping: async () => undefined,
    close: async () => undefined
  }
  memoryStores.add(store)
  return store
}

type Window = { expiresAtSeconds: number; countsByUser: Map<string, Record<ChallengeFlow, number>> }

/** Creates a store with one map per window. A sweep deletes the map at least a minute after the window's end. */
function createChallengeUses(maxUses: number, clock: SweepClock): ChallengeUseStore {
  const windows = new Map<string, Window>()
  let size = 0
  /** End of the newest deleted window. If the clock is set back, challenges of that window must not be valid again. */
  let deletedUntilSeconds = -Infinity
  const createId = (service: string, window: number): string => `${window} ${service}`

  const deleteEndedWindows = (endSeconds: number): void => {
    for (const [id, { expiresAtSeconds, countsByUser }] of windows) {
      if (expiresAtSeconds > endSeconds) continue
      windows.delete(id)
      size -= countsByUser.size
      deletedUntilSeconds = Math.max(deletedUntilSeconds, expiresAtSeconds)
    }
  }

  return {
    async countChallengeUses({ service, did, window }) {
      const { logIn = 0, signUp = 0 } = windows.get(createId(service, window))?.countsByUser.get(did) ?? {}
      return { logIn, signUp }
    },

    async consumeChallenge(use) {
      const { service, did, flow, useCount, nowSeconds, expiresAtSeconds } = use
      if (nowSeconds >= expiresAtSeconds || expiresAtSeconds <= deletedUntilSeconds) return 'taken'
      const window: Window = windows.get(createId(service, use.window)) ?? { expiresAtSeconds, countsByUser: new Map() }
      const counts = window.countsByUser.get(did) ?? { logIn: 0, signUp: 0 }
      if (counts[flow] !== useCount) return 'taken'
      if (!window.countsByUser.has(did)) {
        clock.observeWindow(use)
        deleteEndedWindows(clock.sweepSeconds(nowSeconds) - USES_OUTLIVE_WINDOW_SECONDS)
        if (size >= maxUses) return 'full'
        // Nonces of EIP-4361 expire later than the window of the same number.
        window.expiresAtSeconds = Math.max(window.expiresAtSeconds, expiresAtSeconds)
        windows.set(createId(service, use.window), window)
        window.countsByUser.set(did, counts)
        size += 1
      }
      const other = flow === 'logIn' ? 'signUp' : 'logIn'
      counts[flow] = useCount + 1
      if (use.consumesBoth) counts[other] = Math.max(counts[other], useCount + 1)
      return 'consumed'
    }
  }
}
