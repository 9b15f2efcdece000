import type { ChallengeFlow, ChallengeUseStore } from '../../ports.js'
import { USES_OUTLIVE_WINDOW_SECONDS } from '../../protocol/challenge.js'
import type { SweepClock } from '../sweep-clock.js'

interface Window {
  expiresAtSeconds: number
  countsByUser: Map<string, Record<ChallengeFlow, number>>
}

/** Counts of consumed challenges, one map a window, which a sweep deletes no earlier than a minute after its end. */
export function memoryChallengeUses(maxUses: number, clock: SweepClock): ChallengeUseStore {
  const windows = new Map<string, Window>()
  let size = 0
  /** End of the newest window whose uses were deleted: a clock that is set back must not make them good again. */
  let deletedUntilSeconds = -Infinity
  const idOf = (service: string, window: number): string => `${window} ${service}`

  const deleteEndedWindows = (endedSeconds: number): void => {
    for (const [id, { expiresAtSeconds, countsByUser }] of windows) {
      if (expiresAtSeconds > endedSeconds) continue
      windows.delete(id)
      size -= countsByUser.size
      deletedUntilSeconds = Math.max(deletedUntilSeconds, expiresAtSeconds)
    }
  }

  return {
    async countChallengeUses({ service, did, window }) {
      const { logIn = 0, signUp = 0 } = windows.get(idOf(service, window))?.countsByUser.get(did) ?? {}
      return { logIn, signUp }
    },

    async consumeChallenge(use) {
      const { service, did, flow, useCount, nowSeconds, expiresAtSeconds } = use
      if (nowSeconds >= expiresAtSeconds || expiresAtSeconds <= deletedUntilSeconds) return 'taken'
      const window: Window = windows.get(idOf(service, use.window)) ?? { expiresAtSeconds, countsByUser: new Map() }
      const counts = window.countsByUser.get(did) ?? { logIn: 0, signUp: 0 }
      if (counts[flow] !== useCount) return 'taken'
      if (!window.countsByUser.has(did)) {
        clock.observeWindow(use)
        deleteEndedWindows(clock.sweepSeconds(nowSeconds) - USES_OUTLIVE_WINDOW_SECONDS)
        if (size >= maxUses) return 'full'
        // Nonces of EIP-4361 end later than a window of the same number.
        window.expiresAtSeconds = Math.max(window.expiresAtSeconds, expiresAtSeconds)
        windows.set(idOf(service, use.window), window)
        window.countsByUser.set(did, counts)
        size += 1
      }
      const next = useCount + 1
      const other = flow === 'logIn' ? 'signUp' : 'logIn'
      counts[flow] = next
      if (use.consumesBoth) counts[other] = Math.max(counts[other], next)
      return 'consumed'
    }
  }
}
