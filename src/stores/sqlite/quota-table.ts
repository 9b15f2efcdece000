import type { QuotaCharge, QuotaState } from '../../ports.js'
import { RowCount } from './row-count.js'
import type { SqlConnection, SqlStatement } from './sqlite-engine.js'

interface Quota {
  readonly id: number
  count: number
  resetsAtSeconds: number
  /** Whether its count is to be written before the commit. */
  isChanged: boolean
}

const ROWS_AT_A_TIME = 500

/** A service is one line, so that the line feed separates both parts unambiguously. */
function quotaKeyOf(service: string, key: string): string {
  return `${key}\n${service}`
}

/** A slot that ends later than two slots from now was begun by a clock that ran far ahead, and must refuse no user. */
function isRunning(resetsAtSeconds: number, nowSeconds: number, timeSlotSeconds: number): boolean {
  return nowSeconds < resetsAtSeconds && resetsAtSeconds <= nowSeconds + 2 * timeSlotSeconds
}

/** Quotas remembered from one transaction to the next, about 200 bytes each. */
const MAX_REMEMBERED = 20_000

/** The tables of quotas, one for each kind, so that quotas of strangers displace none of users. */
export const QUOTA_TABLES: Readonly<Record<QuotaCharge['kind'], string>> = {
  request: 'did_auth_request_quotas',
  anonymous: 'did_auth_anonymous_quotas'
}

/** Texts that create a table of quotas. */
export function quotaTableTexts(table: string): string[] {
  return [
    `CREATE TABLE IF NOT EXISTS ${table} (
      id INTEGER PRIMARY KEY,
      quota_key TEXT NOT NULL UNIQUE,
      count INTEGER NOT NULL,
      resets_at INTEGER NOT NULL
    ) STRICT`,
    `CREATE INDEX IF NOT EXISTS ${table}_by_end ON ${table} (resets_at)`
  ]
}

/**
 * Quotas of one kind. What was read or written is remembered as long as no other connection writes to the file, so that
 * a charge costs one update by row number; quotas that are charged several times in a transaction are written once.
 */
export class QuotaTable {
  readonly #maxQuotas: number
  readonly #count: RowCount
  readonly #remembered = new Map<string, Quota>()
  #changed: Quota[] = []
  readonly #find: SqlStatement
  readonly #insert: SqlStatement
  readonly #begin: SqlStatement
  readonly #update: SqlStatement
  readonly #delete: SqlStatement
  readonly #ended: SqlStatement
  readonly #firstToEnd: SqlStatement

  constructor(connection: SqlConnection, table: string, maxQuotas: number) {
    this.#maxQuotas = maxQuotas
    this.#count = new RowCount(connection, table)
    this.#find = connection.prepare(`SELECT id, count, resets_at FROM ${table} WHERE quota_key = ?`)
    this.#insert = connection.prepare(`INSERT INTO ${table} (quota_key, count, resets_at) VALUES (?, ?, ?)`)
    this.#begin = connection.prepare(`UPDATE ${table} SET count = ?, resets_at = ? WHERE id = ?`)
    this.#update = connection.prepare(`UPDATE ${table} SET count = ? WHERE id = ?`)
    this.#delete = connection.prepare(`DELETE FROM ${table} WHERE id = ?`)
    const columns = 'id, quota_key'
    this.#ended = connection.prepare(
      `SELECT ${columns} FROM ${table} WHERE resets_at <= ? ORDER BY resets_at LIMIT ${String(ROWS_AT_A_TIME)}`
    )
    this.#firstToEnd = connection.prepare(`SELECT ${columns} FROM ${table} ORDER BY resets_at, id LIMIT 1`)
  }

  /** Charges a quota. Changed counts are only written by {@link flush}. */
  charge({ service, key, cost, limit = Infinity, nowSeconds, timeSlotSeconds }: QuotaCharge): QuotaState {
    const quotaKey = quotaKeyOf(service, key)
    const quota = this.#remembered.get(quotaKey) ?? this.#read(quotaKey)
    const endSeconds = quota?.resetsAtSeconds ?? 0
    if (quota !== undefined && isRunning(endSeconds, nowSeconds, timeSlotSeconds)) {
      const isCharged = quota.count + cost <= limit
      if (isCharged) this.#setCount(quota, quota.count + cost)
      return { isCharged, count: quota.count, resetsAtSeconds: quota.resetsAtSeconds }
    }
    const resetsAtSeconds = nowSeconds + timeSlotSeconds
    if (cost > limit) return { isCharged: false, count: 0, resetsAtSeconds }
    if (quota === undefined) this.#add(quotaKey, cost, resetsAtSeconds, nowSeconds)
    else this.#beginAgain(quota, cost, resetsAtSeconds)
    return { isCharged: true, count: cost, resetsAtSeconds }
  }

  /** The state of a quota in its current time slot, as it was last committed; undefined when no slot is running. */
  read({
    service,
    key,
    nowSeconds,
    timeSlotSeconds
  }: QuotaCharge): { count: number; resetsAtSeconds: number } | undefined {
    const row = this.#find.get(quotaKeyOf(service, key))
    const resetsAtSeconds = Number(row?.resets_at ?? 0)
    if (row === undefined || !isRunning(resetsAtSeconds, nowSeconds, timeSlotSeconds)) return undefined
    return { count: Number(row.count), resetsAtSeconds }
  }

  /** Writes what changed. To be called before the commit. */
  flush(): void {
    for (const quota of this.#changed) {
      if (quota.isChanged) this.#update.run(quota.count, quota.id)
      quota.isChanged = false
    }
    this.#changed = []
    if (this.#remembered.size > MAX_REMEMBERED) this.#remembered.clear()
  }

  /** Deletes some of the quotas that ended. True when there may be more. */
  sweep(nowSeconds: number): boolean {
    const ended = this.#ended.all(nowSeconds)
    for (const { id, quota_key: quotaKey } of ended) this.#remove(Number(id), String(quotaKey))
    return ended.length === ROWS_AT_A_TIME
  }

  /** Forgets what it knew of the table: a transaction was rolled back, or another connection wrote. */
  reset(): void {
    this.#remembered.clear()
    this.#changed = []
    this.#count.reset()
  }

  #read(quotaKey: string): Quota | undefined {
    const row = this.#find.get(quotaKey)
    if (row === undefined) return undefined
    return this.#remember(quotaKey, Number(row.id), Number(row.count), Number(row.resets_at))
  }

  #remember(quotaKey: string, id: number, count: number, resetsAtSeconds: number): Quota {
    const quota = { id, count, resetsAtSeconds, isChanged: false }
    this.#remembered.set(quotaKey, quota)
    return quota
  }

  #setCount(quota: Quota, count: number): void {
    quota.count = count
    if (quota.isChanged) return
    quota.isChanged = true
    this.#changed.push(quota)
  }

  #beginAgain(quota: Quota, count: number, resetsAtSeconds: number): void {
    this.#begin.run(count, resetsAtSeconds, quota.id)
    quota.count = count
    quota.resetsAtSeconds = resetsAtSeconds
    quota.isChanged = false
  }

  #add(quotaKey: string, count: number, resetsAtSeconds: number, nowSeconds: number): void {
    if (this.#count.reaches(this.#maxQuotas)) this.sweep(nowSeconds)
    if (this.#count.reaches(this.#maxQuotas)) {
      const first = this.#firstToEnd.get()
      if (first !== undefined) this.#remove(Number(first.id), String(first.quota_key))
    }
    const id = this.#insert.run(quotaKey, count, resetsAtSeconds).lastInsertRowid
    this.#count.add(1)
    this.#remember(quotaKey, Number(id), count, resetsAtSeconds)
  }

  #remove(id: number, quotaKey: string): void {
    const quota = this.#remembered.get(quotaKey)
    if (quota !== undefined) quota.isChanged = false
    this.#remembered.delete(quotaKey)
    this.#count.add(-Number(this.#delete.run(id).changes))
  }
}
