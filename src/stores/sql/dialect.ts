/** Words of statements that create tables, where SQLite and PostgreSQL differ. Both know `text` and `int`. */
export interface TableWords {
  /** Type of text that is compared and ordered by its bytes. */
  readonly exactText: string
  readonly bigint: string
  readonly smallint: string
  readonly bytes: string
  /** Type of bytes that are the key of a table which also has an `identity`. */
  readonly bytesKey: string
  /** Type of a number that the database counts up. In SQLite, it is the key of the table. */
  readonly identity: string
  /** Type of a number that the database counts up, and that is the key of the table. */
  readonly identityKey: string
  readonly noBytes: string
  /** Order of an index in which NULL comes first. */
  readonly nullsFirst: string
  /** A foreign key. SQLite has none, because it has one writer, and repairs a damaged file row by row. */
  readonly references: (target: string) => string
  /** End of a table. `fillFactor`: percentage of each page that is used at first. `hasKeyOnly`: it has no row id. */
  readonly end: (options?: { readonly fillFactor?: number; readonly hasKeyOnly?: boolean }) => string
}

/** Parts of statements that differ between SQLite and PostgreSQL. All other text is the same for both. */
export interface Dialect {
  /** Engine that runs the statements. A verb file has one table of statements per engine. */
  readonly engine: 'sqlite' | 'postgres'
  /** Prefix of function calls. In PostgreSQL, it excludes functions of the same name that another role has created. */
  readonly schemaPrefix: string
  /** Returns bytes as hexadecimal digits, which every client reads in the same way. */
  readonly hex: (bytes: string) => string
  /** Concatenates the bytes of two expressions. */
  readonly joinBytes: (first: string, second: string) => string
  /** Returns the larger of two numbers. */
  readonly greatest: (first: string, second: string) => string
  /** A condition that is true in only one of several concurrent transactions, until that transaction ends. */
  readonly tryLock: (lock: string) => string
  /** The database's time, in whole seconds since the Unix epoch. */
  readonly nowSeconds: string
  /** Deletes rows of a table (`target` in the condition), except rows that another transaction has locked. */
  readonly deleteRows: (table: string, condition: string) => string
  /** Returns the approximate number of rows. In SQLite, it is exact if the table may have more than `bound`. */
  readonly rowCount: (table: string, bound: string) => string
  /**
   * Also inserts the rows that a changing statement returns; in the insertion, they are called `changed`. Undefined in
   * SQLite, which needs a second statement, in the transaction of the verb.
   */
  readonly insertReturned?: (change: string, insertion: string) => string
  /** Whether an update rewrites an index if the column's value stays the same. PostgreSQL avoids it (HOT updates). */
  readonly rewritesIndexes: boolean
  /** Types and words of statements that create tables. */
  readonly words: TableWords
}

/** Dialect of SQLite. */
export const sqliteDialect: Dialect = {
  engine: 'sqlite',
  schemaPrefix: '',
  hex: (bytes) => `hex(${bytes})`,
  // `||` returns text with the same bytes.
  joinBytes: (first, second) => `CAST(${first} || ${second} AS BLOB)`,
  greatest: (first, second) => `max(${first}, ${second})`,
  // SQLite has only one writer at a time.
  tryLock: () => 'true',
  nowSeconds: "CAST(strftime('%s', 'now') AS INTEGER)",
  deleteRows: (table, condition) =>
    `DELETE FROM ${table} WHERE rowid IN (SELECT target.rowid FROM ${table} target WHERE ${condition})`,
  // The range of ids is an upper bound of the number of rows. Counting ten million rows takes a second.
  rowCount: (table, bound) => `(SELECT CASE WHEN span < ${bound} THEN span ELSE (SELECT count(*) FROM ${table}) END
    FROM (SELECT coalesce((SELECT max(rowid) FROM ${table}) - (SELECT min(rowid) FROM ${table}) + 1, 0) AS span))`,
  rewritesIndexes: true,
  words: {
    exactText: 'TEXT',
    bigint: 'INTEGER',
    smallint: 'INTEGER',
    bytes: 'BLOB',
    bytesKey: 'BLOB NOT NULL UNIQUE',
    identity: 'INTEGER PRIMARY KEY',
    identityKey: 'INTEGER PRIMARY KEY',
    noBytes: "x''",
    nullsFirst: '',
    references: () => '',
    // SQLite would store text in a number column unless the table is `STRICT`.
    end: ({ hasKeyOnly = false } = {}) => (hasKeyOnly ? ' STRICT, WITHOUT ROWID' : ' STRICT')
  }
}

/** Dialect of PostgreSQL. */
export const postgresDialect: Dialect = {
  engine: 'postgres',
  schemaPrefix: 'pg_catalog.',
  hex: (bytes) => `pg_catalog.encode(${bytes}, 'hex')`,
  joinBytes: (first, second) => `(CAST(${first} AS bytea) || ${second})`,
  greatest: (first, second) => `greatest(${first}, ${second})`,
  tryLock: (lock) => `(SELECT pg_catalog.pg_try_advisory_xact_lock(pg_catalog.hashtextextended('${lock}', 0)))`,
  nowSeconds: 'CAST(extract(epoch FROM pg_catalog.now()) AS bigint)',
  deleteRows: (table, condition) => `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
    SELECT target.ctid FROM ${table} target WHERE ${condition} FOR UPDATE OF target SKIP LOCKED))`,
  // PostgreSQL's own estimate. An exact counter would be a row for which all transactions wait. The operands have the
  // exact types of built-in operators: otherwise an operator of another role could match better.
  rowCount: (table) => `(SELECT CAST(reltuples AS bigint) FROM pg_catalog.pg_class
    WHERE oid = CAST(pg_catalog.to_regclass('${table}') AS oid))`,
  insertReturned: (change, insertion) =>
    `WITH changed AS (${change}), inserted AS (${insertion}) SELECT * FROM changed`,
  rewritesIndexes: false,
  words: {
    exactText: 'text COLLATE "C"',
    bigint: 'bigint',
    smallint: 'smallint',
    bytes: 'bytea',
    bytesKey: 'bytea PRIMARY KEY',
    identity: 'bigint GENERATED ALWAYS AS IDENTITY',
    identityKey: 'bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY',
    noBytes: "''",
    nullsFirst: ' NULLS FIRST',
    references: (target) => ` REFERENCES ${target}`,
    end: ({ fillFactor } = {}) => (fillFactor === undefined ? '' : ` WITH (fillfactor = ${String(fillFactor)})`)
  }
}
