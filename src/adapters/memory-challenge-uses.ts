import type { ChallengeFlow, ChallengeUse, ChallengeUseKey } from '../ports.js'
import { USES_OUTLIVE_WINDOW_SECONDS } from '../protocol/challenge.js'

type UseCounts = Record<ChallengeFlow, number>

interface Window {
  expiresAtSeconds: number
  countsByUser: Map<string, UseCounts>
}

const NO_USES: Readonly<UseCounts> = Object.freeze({ logIn: 0, signUp: 0 })

/** Counts of used challenges, one map a window, dropped whole a minute after the window's end and never earlier. */
export class MemoryChallengeUses {
  readonly #maxUses: number
  readonly #windows = new Map<string, Window>()

  constructor(maxUses: number) {
    this.#maxUses = maxUses
  }

  count(key: ChallengeUseKey): UseCounts {
    return { ...(this.#windows.get(windowId(key.service, key.window))?.countsByUser.get(key.did) ?? NO_USES) }
  }

  use(use: ChallengeUse): 'used' | 'taken' | 'full' {
    if (use.nowSeconds >= use.expiresAtSeconds) return 'taken'
    const window = this.#windowOf(use)
    const counts = window.countsByUser.get(use.did) ?? { ...NO_USES }
    if (counts[use.flow] !== use.useCount) return 'taken'
    if (!window.countsByUser.has(use.did)) {
      this.#dropEndedWindows(use.nowSeconds)
      if (this.#size() >= this.#maxUses) return 'full'
      window.countsByUser.set(use.did, counts)
    }
    const next = use.useCount + 1
    const other = use.flow === 'logIn' ? 'signUp' : 'logIn'
    counts[use.flow] = next
    if (use.spendsBoth) counts[other] = Math.max(counts[other], next)
    return 'used'
  }

  #windowOf({ service, window, expiresAtSeconds }: ChallengeUse): Window {
    const id = windowId(service, window)
    const known = this.#windows.get(id)
    if (known !== undefined) return known
    const begun = { expiresAtSeconds, countsByUser: new Map<string, UseCounts>() }
    this.#windows.set(id, begun)
    return begun
  }

  #dropEndedWindows(nowSeconds: number): void {
    const forgottenSeconds = nowSeconds - USES_OUTLIVE_WINDOW_SECONDS
    for (const [id, window] of this.#windows) if (window.expiresAtSeconds <= forgottenSeconds) this.#windows.delete(id)
  }

  #size(): number {
    return [...this.#windows.values()].reduce((sum, window) => sum + window.countsByUser.size, 0)
  }
}

function windowId(service: string, window: number): string {
  return `${window} ${service}`
}
