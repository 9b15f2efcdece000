import { Buffer } from 'node:buffer'
import type { QuotaCharge, QuotaState, QuotaStore } from '../../ports.js'
import { AgedMap } from './aged-map.js'

/** Ended quotas that are deleted when one is added. */
const PURGED_AT_ONCE = 2

/** Quotas by service and key, in the order in which their time slots began. */
type Quotas = AgedMap<{ count: number; resetsAtSeconds: number }>

/** Counters of requests in fixed time slots, of each kind apart, so that those of strangers displace none of users. */
export function createMemoryQuotas(maxQuotas: number): QuotaStore {
  const kinds: Record<QuotaCharge['kind'], Quotas> = { request: new AgedMap(), anonymous: new AgedMap() }
  return { chargeQuota: async (charge) => chargeIn(kinds[charge.kind], maxQuotas, charge) }
}

function chargeIn(
  quotas: Quotas,
  maxQuotas: number,
  { service, key, cost, limit = Infinity, nowSeconds, timeSlotSeconds }: QuotaCharge
): QuotaState {
  const id = `${service} ${key}`
  const known = quotas.get(id)
  const isRunning = known !== undefined && nowSeconds < known.resetsAtSeconds
  // A slot that ends later than two slots from now was begun by a clock that ran far ahead, and must refuse no user.
  if (isRunning && known.resetsAtSeconds <= nowSeconds + 2 * timeSlotSeconds) {
    const isCharged = known.count + cost <= limit
    if (isCharged) known.count += cost
    return { isCharged, count: known.count, resetsAtSeconds: known.resetsAtSeconds }
  }
  const begun = { count: cost, resetsAtSeconds: nowSeconds + timeSlotSeconds }
  if (cost > limit) return { ...begun, isCharged: false, count: 0 }
  quotas.delete(id)
  for (let purged = 0; purged < PURGED_AT_ONCE; purged += 1) {
    const [oldest, quota] = quotas.oldest() ?? []
    if (oldest === undefined || quota === undefined) break
    if (nowSeconds < quota.resetsAtSeconds && quotas.size < maxQuotas) break
    quotas.delete(oldest)
  }
  // V8 stores a concatenated text as a tree of its parts until it is copied: three times the memory in a Map.
  quotas.set(Buffer.from(id).toString(), begun)
  return { ...begun, isCharged: true }
}
