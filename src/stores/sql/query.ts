/** A row, its values by column name. */
export type SqlRow = Readonly<Record<string, unknown>>

/** A statement with parameters `$1`, `$2` and so on. One with a `name` is parsed once for each connection. */
export interface SqlStatement {
  readonly name?: string
  readonly text: string
}

/** The outcome of a statement. */
export interface SqlResult {
  readonly rows: readonly SqlRow[]
  /** Rows that were read, or changed. */
  readonly rowCount: number
  /** Whether an earlier attempt may have done it already: its connection was lost before its answer. */
  readonly isRepeat: boolean
}

/** Runs a statement on a connection, or in the transaction of a verb. */
export type SqlQuery = (statement: SqlStatement, values?: readonly unknown[]) => Promise<SqlResult>

/** A verb: statements that belong together. In SQLite it is one transaction. */
// Parameters are checked where a verb is called, by the types of that verb.
export type SqlVerb = (query: SqlQuery, ...args: never[]) => Promise<unknown>

/** Verbs by name. */
export type SqlVerbs = Readonly<Record<string, SqlVerb>>

/** The arguments of a verb that its caller gives. */
export type VerbArguments<V> = V extends (query: SqlQuery, ...args: infer A) => unknown ? A : never

/** Calls verbs by name, wherever they run. */
export type CallVerb<V extends SqlVerbs> = <N extends keyof V & string>(
  name: N,
  ...args: VerbArguments<V[N]>
) => ReturnType<V[N]>
