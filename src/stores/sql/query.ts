import type { Dialect } from './dialect.js'

/** Values of a row by column name. */
export type SqlRow = Readonly<Record<string, unknown>>

/** A statement with parameters `$1`, `$2` and so on. If it has a `name`, each connection prepares it only once. */
export interface SqlStatement {
  /** Name of the prepared statement, unique per text. Absent: not prepared. */
  readonly name?: string
  /** SQL text. */
  readonly text: string
}

/** The outcome of a statement. */
export interface SqlResult {
  /** Rows that the statement returned, by column names. */
  readonly rows: readonly SqlRow[]
  /** Number of rows that were read or changed. */
  readonly rowCount: number
  /** Whether an earlier attempt may already have run: its connection was lost before the result arrived. */
  readonly isRepeat: boolean
}

/** Runs a statement on a connection or in the transaction of a verb. */
export type SqlQuery = (statement: SqlStatement, values?: readonly unknown[]) => Promise<SqlResult>

/** Runs the statements of a verb, and names the dialect in which they are written. */
export type VerbQuery<D> = SqlQuery & { readonly dialect: D }

/** Query of the verbs of a store. */
export type StoreQuery = VerbQuery<Dialect>

/**
 * How an engine runs a verb:
 *
 * - `read`: writes nothing. SQLite runs it outside of transactions, also in the reader thread.
 * - `write`: in PostgreSQL, each statement is a transaction. In SQLite, the verb is part of the transaction of a group.
 * - `transaction`: the verb is one transaction in PostgreSQL too.
 * - `file`: work on a whole file of SQLite, which writes outside of transactions.
 */
export type VerbKind = 'read' | 'write' | 'transaction' | 'file'

/** Properties of a verb that most verbs do not need. */
export interface VerbTraits {
  /**
   * Whether the verb is repeated after a lost connection. Such a verb is idempotent, or recognizes what its first
   * attempt has written. Default true.
   */
  readonly isRepeatable?: boolean
  /** Whether the verb frees more space than it needs, so that it is repeated when a full disk has space again. */
  readonly freesSpace?: boolean
}

/** An operation of one or more statements, which an engine runs in the thread or on the connection that it chooses. */
export interface SqlVerb<D, A extends readonly unknown[] = never[], R = unknown> extends Required<VerbTraits> {
  /** Decides transaction and thread. */
  readonly kind: VerbKind
  /** Runs the statements by `query`, and returns the result. */
  readonly run: (query: VerbQuery<D>, ...args: A) => Promise<R>
}

/** Creates a verb. Its arguments and its result must be values that can be sent between threads. */
export function verb<D, A extends readonly unknown[], R>(
  kind: VerbKind,
  run: (query: VerbQuery<D>, ...args: A) => Promise<R>,
  { isRepeatable = true, freesSpace = false }: VerbTraits = {}
): SqlVerb<D, A, R> {
  return { kind, run, isRepeatable, freesSpace }
}

/** Runs a verb, in this thread or in another. */
export type RunVerb<D> = <A extends readonly unknown[], R>(verb: SqlVerb<D, A, R>, ...args: A) => Promise<R>

/** Collects the verbs that modules export, by name, for threads: a message contains the name of a verb. */
export function collectVerbs<D>(...modules: readonly object[]): ReadonlyMap<string, SqlVerb<D>> {
  const isVerb = (value: unknown): value is SqlVerb<D> => typeof value === 'object' && value !== null && 'run' in value
  const verbs = new Map<string, SqlVerb<D>>()
  for (const [name, value] of modules.flatMap((module) => Object.entries(module) as [string, unknown][])) {
    if (isVerb(value)) verbs.set(name, value)
  }
  return verbs
}

/** Creates named statements. The name of a prepared statement is the prefix and the key of its text. */
export function createStatements<K extends string>(
  prefix: string,
  texts: Readonly<Record<K, string>>
): Record<K, SqlStatement> {
  const named = Object.entries<string>(texts).map(([name, text]) => [name, { name: prefix + name, text }])
  // The result has the keys of `texts`.
  return Object.fromEntries(named) as Record<K, SqlStatement>
}
