import type { ChallengeFlow, ChallengeUse, ChallengeUseKey } from '../../ports.js'
import { USES_OUTLIVE_WINDOW_SECONDS } from '../../protocol/challenge.js'
import type { SweepClock } from '../sweep-clock.js'

type UseCounts = Record<ChallengeFlow, number>

interface Window {
  expiresAtSeconds: number
  countsByUser: Map<string, UseCounts>
}

const NO_USES: Readonly<UseCounts> = Object.freeze({ logIn: 0, signUp: 0 })

/** Counts of consumed challenges, one map a window. A sweep deletes a map a minute after the window's end, never earlier. */
export class MemoryChallengeUses {
  readonly #maxUses: number
  readonly #clock: SweepClock
  readonly #windows = new Map<string, Window>()
  #size = 0
  /** End of the newest window whose uses were deleted: a clock that is set back must not make them good again. */
  #deletedUntilSeconds = -Infinity

  constructor(maxUses: number, clock: SweepClock) {
    this.#maxUses = maxUses
    this.#clock = clock
  }

  count(key: ChallengeUseKey): UseCounts {
    return { ...(this.#windows.get(windowId(key.service, key.window))?.countsByUser.get(key.did) ?? NO_USES) }
  }

  consume(use: ChallengeUse): 'consumed' | 'taken' | 'full' {
    if (use.nowSeconds >= use.expiresAtSeconds || use.expiresAtSeconds <= this.#deletedUntilSeconds) return 'taken'
    const window = this.#windowOf(use)
    const counts = window.countsByUser.get(use.did) ?? { ...NO_USES }
    if (counts[use.flow] !== use.useCount) return 'taken'
    if (!window.countsByUser.has(use.did)) {
      this.#clock.observeWindow(use)
      this.#deleteEndedWindows(this.#clock.sweepSeconds(use.nowSeconds))
      if (this.#size >= this.#maxUses) return 'full'
      window.countsByUser.set(use.did, counts)
      this.#size += 1
    }
    const next = use.useCount + 1
    const other = use.flow === 'logIn' ? 'signUp' : 'logIn'
    counts[use.flow] = next
    if (use.consumesBoth) counts[other] = Math.max(counts[other], next)
    return 'consumed'
  }

  #windowOf({ service, window, expiresAtSeconds }: ChallengeUse): Window {
    const id = windowId(service, window)
    const known = this.#windows.get(id)
    if (known !== undefined) return known
    const begun = { expiresAtSeconds, countsByUser: new Map<string, UseCounts>() }
    this.#windows.set(id, begun)
    return begun
  }

  #deleteEndedWindows(sweepSeconds: number): void {
    const endedSeconds = sweepSeconds - USES_OUTLIVE_WINDOW_SECONDS
    for (const [id, { expiresAtSeconds, countsByUser }] of this.#windows) {
      if (expiresAtSeconds > endedSeconds) continue
      this.#windows.delete(id)
      this.#size -= countsByUser.size
      if (countsByUser.size > 0) this.#deletedUntilSeconds = Math.max(this.#deletedUntilSeconds, expiresAtSeconds)
    }
  }
}

function windowId(service: string, window: number): string {
  return `${window} ${service}`
}
