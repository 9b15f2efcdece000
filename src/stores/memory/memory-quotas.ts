import { Buffer } from 'node:buffer'
import type { QuotaCharge, QuotaState, QuotaStore } from '../../ports.js'
import { AgedMap } from './memory-sessions.js'

/** Maximum number of ended quotas that are deleted when one is added. */
const PURGED_AT_ONCE = 2

/** Quotas by service and key, in the order in which their time slots began. */
type Quotas = AgedMap<{ count: number; resetsAtSeconds: number }>

/** Creates request counters in fixed time slots. Kinds have separate maps, so strangers cannot displace users. */
export function createMemoryQuotas(maxQuotas: number): QuotaStore {
  const kinds: Record<QuotaCharge['kind'], Quotas> = { request: new AgedMap(), anonymous: new AgedMap() }
  return { chargeQuota: async (charge) => chargeQuotaIn(kinds[charge.kind], maxQuotas, charge) }
}

function chargeQuotaIn(
  quotas: Quotas,
  maxQuotas: number,
  { service, key, cost, limit = Infinity, nowSeconds, timeSlotSeconds }: QuotaCharge
): QuotaState {
  const id = `${service} ${key}`
  const running = quotas.get(id)
  const isRunning = running !== undefined && nowSeconds < running.resetsAtSeconds
  // If a slot ends more than two slots from now, the clock was far ahead when it began. It is replaced by a new one.
  if (isRunning && running.resetsAtSeconds <= nowSeconds + 2 * timeSlotSeconds) {
    const isCharged = running.count + cost <= limit
    if (isCharged) running.count += cost
    return { isCharged, count: running.count, resetsAtSeconds: running.resetsAtSeconds }
  }
  const newQuota = { count: cost, resetsAtSeconds: nowSeconds + timeSlotSeconds }
  if (cost > limit) return { ...newQuota, isCharged: false, count: 0 }
  quotas.delete(id)
  for (let purged = 0; purged < PURGED_AT_ONCE; purged += 1) {
    const [oldest, quota] = quotas.findOldest() ?? []
    if (oldest === undefined || quota === undefined) break
    if (nowSeconds < quota.resetsAtSeconds && quotas.size < maxQuotas) break
    quotas.delete(oldest)
  }
  // V8 stores a concatenated string as a tree of its parts, which needs three times the memory. Copying flattens it.
  quotas.set(Buffer.from(id).toString(), newQuota)
  return { ...newQuota, isCharged: true }
}
