import { rmSync } from 'node:fs'
import type { QuotaCharge } from '../../ports.js'
import { isFile } from './better-sqlite3.js'
import type { Verbs } from './group-commit.js'
import { parseChargeRow, toStateRow, type ChargeRow, type StateRow } from './quota-row.js'
import { QUOTA_TABLES, quotaTableTexts, QuotaTable } from './quota-table.js'
import { inTransaction } from './schema.js'
import { isDamaged } from './sqlite-error.js'
import { openConnection, type EngineName, type SqlConnection, type SqlStatement } from './sqlite-engine.js'

const VERSION = 1

/** Where the quotas of a store lie: a file of their own, because they need not survive the loss of power. */
export function quotaFile(file: string): string {
  return isFile(file) ? `${file}-quotas` : file
}

/**
 * Opens the file of quotas, and replaces one that is damaged or of another version: that loses only the counts of the
 * current time slots.
 */
export function openQuotaConnection(file: string, engine: EngineName, busyMilliseconds: number): SqlConnection {
  try {
    return openWithTables(file, engine, busyMilliseconds)
  } catch (error) {
    if (!isDamaged(error) || !isFile(file)) throw error
    for (const suffix of ['', '-wal', '-shm']) rmSync(file + suffix, { force: true })
    return openWithTables(file, engine, busyMilliseconds)
  }
}

/** The verb of quotas, as a group of it is run. */
export class QuotaVerbs implements Verbs {
  readonly #tables: Readonly<Record<QuotaCharge['kind'], QuotaTable>>
  readonly #dataVersion: SqlStatement
  #seenVersion: unknown

  constructor(connection: SqlConnection, maxQuotas: number) {
    const [request, anonymous] = [QUOTA_TABLES.request, QUOTA_TABLES.anonymous]
    this.#tables = {
      request: new QuotaTable(connection, request, maxQuotas),
      anonymous: new QuotaTable(connection, anonymous, maxQuotas)
    }
    this.#dataVersion = connection.prepare('PRAGMA data_version')
  }

  /** Drops the cache when another connection wrote since: SQLite counts that. */
  begin(): void {
    const version = this.#dataVersion.get()?.data_version
    if (version === this.#seenVersion) return
    this.#seenVersion = version
    this.reset()
  }

  run(_verb: string, [row]: readonly unknown[]): StateRow {
    const charge = parseChargeRow(row as ChargeRow)
    return toStateRow(this.#tables[charge.kind].charge(charge))
  }

  /** As `QuotaTable.read`; undefined as well when the file cannot be read. */
  read(charge: QuotaCharge): { count: number; resetsAtSeconds: number } | undefined {
    try {
      return this.#tables[charge.kind].read(charge)
    } catch {
      return undefined
    }
  }

  finish(): void {
    this.#tables.request.flush()
    this.#tables.anonymous.flush()
  }

  reset(): void {
    this.#tables.request.reset()
    this.#tables.anonymous.reset()
  }

  sweep(nowSeconds: number): boolean {
    const mayBeMore = [this.#tables.request.sweep(nowSeconds), this.#tables.anonymous.sweep(nowSeconds)]
    return mayBeMore.includes(true)
  }
}

function openWithTables(file: string, engine: EngineName, busyMilliseconds: number): SqlConnection {
  const connection = openConnection(file, engine, { synchronous: 'OFF', busyMilliseconds })
  try {
    inTransaction(connection, () => {
      const version = connection.prepare('PRAGMA user_version').get()?.user_version
      for (const table of Object.values(QUOTA_TABLES)) {
        if (version !== 0 && version !== VERSION) connection.exec(`DROP TABLE IF EXISTS ${table}`)
        for (const text of quotaTableTexts(table)) connection.exec(text)
      }
      connection.exec(`PRAGMA user_version = ${String(VERSION)}`)
    })
    return connection
  } catch (error) {
    connection.close()
    throw error
  }
}
