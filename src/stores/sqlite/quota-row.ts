import type { QuotaCharge, QuotaState } from '../../ports.js'

/**
 * A charge as it goes to the thread: values without names, because every request makes one, and naming them in JSON is a
 * fifth of what it costs. The time comes first.
 */
export type ChargeRow = readonly [
  nowSeconds: number,
  timeSlotSeconds: number,
  cost: number,
  /** JSON knows no Infinity. */
  limit: number | null,
  kind: QuotaCharge['kind'],
  service: string,
  key: string
]

/** What becomes of a charge, as it comes back. */
export type StateRow = readonly [isCharged: boolean, count: number, resetsAtSeconds: number]

/** A charge on its way to the thread. */
export function toChargeRow(charge: QuotaCharge): ChargeRow {
  const { nowSeconds, timeSlotSeconds, cost, limit = Infinity, kind, service, key } = charge
  return [nowSeconds, timeSlotSeconds, cost, Number.isFinite(limit) ? limit : null, kind, service, key]
}

/** A charge that came to the thread. */
export function parseChargeRow(row: ChargeRow): QuotaCharge {
  const [nowSeconds, timeSlotSeconds, cost, limit, kind, service, key] = row
  return { nowSeconds, timeSlotSeconds, cost, limit: limit ?? undefined, kind, service, key }
}

/** The state of a quota on its way back. */
export function toStateRow({ isCharged, count, resetsAtSeconds }: QuotaState): StateRow {
  return [isCharged, count, resetsAtSeconds]
}

/** The state of a quota that came back. */
export function parseStateRow([isCharged, count, resetsAtSeconds]: StateRow): QuotaState {
  return { isCharged, count, resetsAtSeconds }
}
