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

/** Statements that belong together, in SQLite one transaction. Its own type says which parameters a verb has. */
export type SqlVerb = (query: SqlQuery, ...args: never[]) => Promise<unknown>

/** Verbs by name. */
export type SqlVerbs = Readonly<Record<string, SqlVerb>>

/** Verbs as their callers have them: on a thread or a connection of their own. */
export type VerbMethods<V extends SqlVerbs> = {
  readonly [N in keyof V]: V[N] extends (query: SqlQuery, ...args: infer A) => infer R ? (...args: A) => R : never
}

/** Runs a verb by its name, wherever that is. */
export type RunVerb = (name: string, args: readonly unknown[]) => Promise<unknown>

/** Runs a verb here, by its name. @throws Error where there is none of that name; as the verb */
export async function runVerb(
  verbs: SqlVerbs,
  name: string,
  query: SqlQuery,
  args: readonly unknown[]
): Promise<unknown> {
  const verb = verbs[name]
  if (verb === undefined) throw new Error(`express-did-auth: no such verb: ${name}`)
  // Its caller has the types of the verb.
  return verb(query, ...(args as never[]))
}

/** Methods that run verbs wherever `run` does. */
export function createMethods<V extends SqlVerbs>(verbs: V, run: RunVerb): VerbMethods<V> {
  const methods = Object.keys(verbs).map((name) => [name, (...args: unknown[]) => run(name, args)])
  // The types are those of the verbs.
  return Object.fromEntries(methods) as VerbMethods<V>
}

/** Statements by their names, each prepared under its name behind a prefix. */
export function createStatements<K extends string>(
  prefix: string,
  texts: Readonly<Record<K, string>>
): Record<K, SqlStatement> {
  const named = Object.entries<string>(texts).map(([name, text]) => [name, { name: prefix + name, text }])
  // The keys are those of the texts.
  return Object.fromEntries(named) as Record<K, SqlStatement>
}
