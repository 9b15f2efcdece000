import { Buffer } from 'node:buffer'
import type { QuotaCharge, QuotaState } from '../ports.js'
import { OldestEntry } from './memory-oldest-entry.js'

/** Ended quotas that go when one comes. */
const PURGED_AT_ONCE = 2

/** Counters of requests in fixed time slots. Ended ones go when others come, oldest first. */
export class MemoryQuotas {
  readonly #maxQuotas: number
  /** By service and key. In the order in which the time slots began. */
  readonly #quotas = new Map<string, QuotaState>()
  readonly #oldest = new OldestEntry(this.#quotas)

  constructor(maxQuotas: number) {
    this.#maxQuotas = maxQuotas
  }

  charge({ service, key, cost, nowSeconds, timeSlotSeconds }: QuotaCharge): QuotaState {
    const id = `${service} ${key}`
    const known = this.#quotas.get(id)
    if (known !== undefined && nowSeconds < known.resetsAtSeconds) {
      known.count += cost
      return { count: known.count, resetsAtSeconds: known.resetsAtSeconds }
    }
    const begun = { count: cost, resetsAtSeconds: nowSeconds + timeSlotSeconds }
    if (cost === 0) return begun
    // Deleted first, so that a slot begun anew goes to the end.
    this.#quotas.delete(id)
    this.#makeRoom(nowSeconds)
    // A text pieced together is a tree of its pieces until somebody copies it: three times the memory in a Map of texts.
    this.#quotas.set(Buffer.from(id).toString(), begun)
    return { ...begun }
  }

  #makeRoom(nowSeconds: number): void {
    for (let purged = 0; purged < PURGED_AT_ONCE; purged += 1) {
      const oldest = this.#oldest.find()
      if (oldest === undefined) return
      const [id, quota] = oldest
      if (nowSeconds < quota.resetsAtSeconds && this.#quotas.size < this.#maxQuotas) return
      this.#quotas.delete(id)
    }
  }
}
