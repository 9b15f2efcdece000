import type { PostgresDatabase } from './postgres-database.js'

/** Bounds of the tables, in rows. */
export type TableBounds = Readonly<
  Record<
    'did_auth_sessions' | 'did_auth_challenge_uses' | 'did_auth_request_quotas' | 'did_auth_anonymous_quotas',
    number
  >
>

const READ_SIZES = {
  name: 'did_auth_read_sizes',
  text: `SELECT name, (SELECT reltuples FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass(name)) AS rows
    FROM pg_catalog.unnest($1::text[]) AS name`
}

/**
 * About how many rows the tables have: PostgreSQL's own estimate, which it renews as a table changes. Counters that are
 * exact would be rows for which all instances wait.
 */
export class TableSizes {
  readonly #database: PostgresDatabase
  readonly #bounds: TableBounds
  #full: ReadonlySet<string> = new Set()

  constructor(database: PostgresDatabase, bounds: TableBounds) {
    this.#database = database
    this.#bounds = bounds
  }

  isFull(table: keyof TableBounds): boolean {
    return this.#full.has(table)
  }

  async read(): Promise<void> {
    const { rows } = await this.#database.query(READ_SIZES, [Object.keys(this.#bounds)], { isRepeatable: true })
    const bounds = new Map<unknown, number>(Object.entries(this.#bounds))
    this.#full = new Set(
      rows
        .filter(({ name, rows: count }) => Number(count) >= (bounds.get(name) ?? Infinity))
        .map(({ name }) => String(name))
    )
  }
}
