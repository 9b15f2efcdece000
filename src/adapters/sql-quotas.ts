import type { QuotaCharge, QuotaState } from '../ports.js'
import { sqlText, type CountedRows } from './sql-text.js'
import type { SqlRow, SqlVerb } from './sql-verb.js'

const counted: Record<QuotaCharge['kind'], CountedRows> = { request: 'requestQuotas', naming: 'namingQuotas' }

/** Counts a request, or reads the count. */
export function* chargeQuota(charge: QuotaCharge, maxQuotas: number): SqlVerb<QuotaState> {
  const { service, kind, key, cost, nowSeconds, timeSlotSeconds } = charge
  const [current] = yield [cost === 0 ? sqlText.quota : sqlText.raiseQuota, key, service, kind, nowSeconds]
  if (current !== undefined) return parseQuota(current)
  const resetsAtSeconds = nowSeconds + timeSlotSeconds
  if (cost === 0) return { count: 0, resetsAtSeconds }

  const own = yield [sqlText.deleteQuota, key, service, kind]
  const ended = yield [sqlText.deleteEndedQuotas, kind, nowSeconds]
  const [begun] = yield [sqlText.beginQuota, key, service, kind, resetsAtSeconds]
  const [total] = yield [sqlText.addRows, 1 - own.length - ended.length, counted[kind]]
  if (Number(total?.number) > maxQuotas) {
    const dropped = yield [sqlText.deleteFirstQuotaToEnd, kind]
    yield [sqlText.addRows, -dropped.length, counted[kind]]
  }
  return parseQuota(begun ?? {})
}

function parseQuota(row: SqlRow): QuotaState {
  return { count: Number(row.request_count), resetsAtSeconds: Number(row.resets_at) }
}
