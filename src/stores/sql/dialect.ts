/** Parts of statements that differ between SQLite and PostgreSQL. All other text is the same for both. */
export interface Dialect {
  /** Before each function: PostgreSQL would else run one of the same name that another role made. */
  readonly fn: string
  /** Bytes as hexadecimal digits, which every client reads the same. */
  readonly hex: (bytes: string) => string
  /** The bytes of one expression, then those of another. */
  readonly joinBytes: (first: string, second: string) => string
  /** The larger of two numbers. */
  readonly greatest: (first: string, second: string) => string
  /** A condition that holds for one of the transactions that ask at once, until it ends. */
  readonly isAlone: (lock: string) => string
  /** The time, in whole seconds since the Unix epoch. */
  readonly nowSeconds: string
  /** Deletes rows `one` of a table, except for those that another transaction has locked. */
  readonly deleteRows: (table: string, condition: string) => string
  /** About how many rows a table has; exact where it may be more than `bound`. */
  readonly rowCount: (table: string, bound: string) => string
  /** Whether setting a column to the value that it has writes its index again: PostgreSQL compares (a HOT update). */
  readonly rewritesIndexes: boolean
}

export const sqliteDialect: Dialect = {
  fn: '',
  hex: (bytes) => `hex(${bytes})`,
  // `||` makes a text of the same bytes.
  joinBytes: (first, second) => `CAST(${first} || ${second} AS BLOB)`,
  greatest: (first, second) => `max(${first}, ${second})`,
  // There is one writer.
  isAlone: () => 'true',
  nowSeconds: "CAST(strftime('%s', 'now') AS INTEGER)",
  deleteRows: (table, condition) =>
    `DELETE FROM ${table} WHERE rowid IN (SELECT one.rowid FROM ${table} one WHERE ${condition})`,
  // The ids span at least as many numbers as there are rows, and counting ten million rows takes a second.
  rowCount: (table, bound) => `(SELECT CASE WHEN span < ${bound} THEN span ELSE (SELECT count(*) FROM ${table}) END
    FROM (SELECT coalesce((SELECT max(rowid) FROM ${table}) - (SELECT min(rowid) FROM ${table}) + 1, 0) AS span))`,
  rewritesIndexes: true
}

export const postgresDialect: Dialect = {
  fn: 'pg_catalog.',
  hex: (bytes) => `pg_catalog.encode(${bytes}, 'hex')`,
  joinBytes: (first, second) => `(CAST(${first} AS bytea) || ${second})`,
  greatest: (first, second) => `greatest(${first}, ${second})`,
  isAlone: (lock) => `(SELECT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended('${lock}', 0)))`,
  nowSeconds: 'CAST(extract(epoch FROM pg_catalog.now()) AS bigint)',
  deleteRows: (table, condition) => `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
    SELECT one.ctid FROM ${table} one WHERE ${condition} FOR UPDATE OF one SKIP LOCKED))`,
  // PostgreSQL's own estimate: an exact counter would be a row that all wait for. Each operator has the very types of
  // one of PostgreSQL's own: else one that another role made would fit better.
  rowCount: (table) => `(SELECT CAST(reltuples AS bigint) FROM pg_catalog.pg_class
    WHERE oid = CAST(pg_catalog.to_regclass('${table}') AS oid))`,
  rewritesIndexes: false
}
