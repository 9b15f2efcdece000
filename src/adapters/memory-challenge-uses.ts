import type { ChallengeFlow, ChallengeUse, ChallengeUseKey } from '../ports.js'

type UseCounts = Record<ChallengeFlow, number>

interface Window {
  expiresAtSeconds: number
  countsByUser: Map<string, UseCounts>
}

const NO_USES: Readonly<UseCounts> = Object.freeze({ logIn: 0, signUp: 0 })

/** Counts of used challenges, one map a window, dropped whole when the window ends and never earlier. */
export class MemoryChallengeUses {
  readonly #maxUses: number
  readonly #windows = new Map<string, Window>()

  constructor(maxUses: number) {
    this.#maxUses = maxUses
  }

  count(key: ChallengeUseKey): UseCounts {
    return { ...(this.#windows.get(windowId(key))?.countsByUser.get(key.did) ?? NO_USES) }
  }

  use(use: ChallengeUse): 'used' | 'taken' | 'full' {
    const counts = this.count(use)
    if (counts[use.flow] !== use.useCount || use.nowSeconds >= use.expiresAtSeconds) return 'taken'
    this.#dropEndedWindows(use.nowSeconds)
    const window = this.#windows.get(windowId(use)) ?? {
      expiresAtSeconds: use.expiresAtSeconds,
      countsByUser: new Map<string, UseCounts>()
    }
    if (!window.countsByUser.has(use.did) && this.#size() >= this.#maxUses) return 'full'
    const next = use.useCount + 1
    const other = use.flow === 'logIn' ? 'signUp' : 'logIn'
    counts[use.flow] = next
    if (use.spendsBoth) counts[other] = Math.max(counts[other], next)
    window.countsByUser.set(use.did, counts)
    this.#windows.set(windowId(use), window)
    return 'used'
  }

  #dropEndedWindows(nowSeconds: number): void {
    for (const [id, window] of this.#windows) if (window.expiresAtSeconds <= nowSeconds) this.#windows.delete(id)
  }

  #size(): number {
    return [...this.#windows.values()].reduce((sum, window) => sum + window.countsByUser.size, 0)
  }
}

function windowId({ service, window }: ChallengeUseKey): string {
  return `${String(window)} ${service}`
}
