/** What a query may be given. Times and counts are whole numbers. */
export type SqlValue = string | number | null

/** A text with `$1`, `$2`, …, and the values for them. */
export type SqlQuery = readonly [text: string, ...values: SqlValue[]]

/** A row that came back, by column. PostgreSQL sends 64-bit integers as text. */
export type SqlRow = Readonly<Record<string, unknown>>

/**
 * A verb of the Store port on a SQL database: yields one query after the other, is handed the rows of each, and returns
 * its result. So it can be run at one go (SQLite) or awaiting each answer (PostgreSQL); whoever runs it puts one
 * transaction around it.
 */
export type SqlVerb<T> = Generator<SqlQuery, T, readonly SqlRow[]>
