import { Buffer } from 'node:buffer'
import type { QuotaCharge, QuotaState, QuotaStore } from '../../ports.js'
import { AgedMap } from './memory-aged-map.js'

/** Ended quotas that are deleted when one is added. */
const PURGED_AT_ONCE = 2

/** Quotas in memory, of each kind apart, so that those of strangers displace none of users. */
export function memoryQuotas(maxQuotas: number): QuotaStore {
  const kinds = { request: new MemoryQuotas(maxQuotas), anonymous: new MemoryQuotas(maxQuotas) }
  return { chargeQuota: async (charge) => kinds[charge.kind].charge(charge) }
}

/** Counters of requests in fixed time slots. Ended ones are deleted when others are added, oldest first. */
class MemoryQuotas {
  readonly #maxQuotas: number
  /** By service and key. In the order in which the time slots began. */
  readonly #quotas = new AgedMap<{ count: number; resetsAtSeconds: number }>()

  constructor(maxQuotas: number) {
    this.#maxQuotas = maxQuotas
  }

  charge({ service, key, cost, limit = Infinity, nowSeconds, timeSlotSeconds }: QuotaCharge): QuotaState {
    const id = `${service} ${key}`
    const known = this.#quotas.get(id)
    // A slot that ends later than two slots from now was begun by a clock that ran far ahead, and must refuse no user.
    if (
      known !== undefined &&
      nowSeconds < known.resetsAtSeconds &&
      known.resetsAtSeconds <= nowSeconds + 2 * timeSlotSeconds
    ) {
      const isCharged = known.count + cost <= limit
      if (isCharged) known.count += cost
      return { isCharged, count: known.count, resetsAtSeconds: known.resetsAtSeconds }
    }
    const begun = { count: cost, resetsAtSeconds: nowSeconds + timeSlotSeconds }
    if (cost > limit) return { ...begun, isCharged: false, count: 0 }
    this.#quotas.delete(id)
    this.#deleteOldest(nowSeconds)
    // V8 keeps a concatenated text as a tree of its parts until it is copied, which needs three times the memory in a Map.
    this.#quotas.set(Buffer.from(id).toString(), begun)
    return { ...begun, isCharged: true }
  }

  #deleteOldest(nowSeconds: number): void {
    for (let purged = 0; purged < PURGED_AT_ONCE; purged += 1) {
      const oldest = this.#quotas.oldest()
      if (oldest === undefined) return
      const [id, quota] = oldest
      if (nowSeconds < quota.resetsAtSeconds && this.#quotas.size < this.#maxQuotas) return
      this.#quotas.delete(id)
    }
  }
}
