import type { QuotaCharge, QuotaState } from '../ports.js'

/** Counters of requests in fixed time slots. Expired ones go when others come, oldest first. */
export class MemoryQuotas {
  readonly #maxQuotas: number
  readonly #quotas = new Map<string, QuotaState>()

  constructor(maxQuotas: number) {
    this.#maxQuotas = maxQuotas
  }

  charge({ service, key, cost, nowSeconds, timeSlotSeconds }: QuotaCharge): QuotaState {
    const id = `${service} ${key}`
    const known = this.#quotas.get(id)
    if (known !== undefined && nowSeconds < known.resetsAtSeconds) {
      known.count += cost
      return { ...known }
    }
    const begun = { count: cost, resetsAtSeconds: nowSeconds + timeSlotSeconds }
    if (cost === 0) return begun
    this.#makeRoom(nowSeconds)
    // Deleted first, so that a slot begun anew goes to the end: the order of the map is the order of the beginnings.
    this.#quotas.delete(id)
    this.#quotas.set(id, begun)
    return { ...begun }
  }

  #makeRoom(nowSeconds: number): void {
    let looked = 0
    for (const [id, quota] of this.#quotas) {
      const isOver = quota.resetsAtSeconds <= nowSeconds
      if ((!isOver && this.#quotas.size < this.#maxQuotas) || looked === 2) return
      this.#quotas.delete(id)
      looked += 1
    }
  }
}
