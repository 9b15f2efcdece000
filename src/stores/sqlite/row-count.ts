import type { SqlConnection, SqlStatement } from './sqlite-engine.js'

/**
 * The number of rows of a table, cached: counting ten million rows takes SQLite a second.
 *
 * The ids of a table span at least as many numbers as there are rows, so that rows are counted only where that span
 * reaches the bound. Between two resets it does not see rows that other processes add or delete.
 */
export class RowCount {
  readonly #span: SqlStatement
  readonly #rows: SqlStatement
  #count: number | undefined
  #isExact = false

  constructor(connection: SqlConnection, table: string) {
    this.#span = connection.prepare(
      `SELECT (SELECT MAX(id) FROM ${table}) - (SELECT MIN(id) FROM ${table}) + 1 AS number`
    )
    this.#rows = connection.prepare(`SELECT COUNT(*) AS number FROM ${table}`)
  }

  /** Whether there are at least `bound` rows. */
  reaches(bound: number): boolean {
    this.#count ??= Number(this.#span.get()?.number ?? 0)
    if (this.#count < bound || this.#isExact) return this.#count >= bound
    this.#count = Number(this.#rows.get()?.number)
    this.#isExact = true
    return this.#count >= bound
  }

  /** Rows were added, or with a negative number deleted. */
  add(rows: number): void {
    if (this.#count !== undefined) this.#count += rows
  }

  /** Drops the cached count: a transaction was rolled back, or other processes may have written. */
  reset(): void {
    this.#count = undefined
    this.#isExact = false
  }
}
