/** Values of a row by column name. */
export type SqlRow = Readonly<Record<string, unknown>>

/** A statement with parameters `$1`, `$2` and so on. If it has a `name`, each connection prepares it only once. */
export interface SqlStatement {
  readonly name?: string
  readonly text: string
}

/** The outcome of a statement. */
export interface SqlResult {
  readonly rows: readonly SqlRow[]
  /** Number of rows that were read or changed. */
  readonly rowCount: number
  /** Whether an earlier attempt may already have run: its connection was lost before the result arrived. */
  readonly isRepeat: boolean
}

/** Runs a statement on a connection or in the transaction of a verb. */
export type SqlQuery = (statement: SqlStatement, values?: readonly unknown[]) => Promise<SqlResult>

/** An operation of one or more statements. In SQLite, it is one transaction. Each verb has its own parameters. */
export type SqlVerb = (query: SqlQuery, ...args: never[]) => Promise<unknown>

/** Verbs by name. */
export type SqlVerbs = Readonly<Record<string, SqlVerb>>

/** Verbs as methods for callers, without the `query` parameter. They run on a thread or a connection. */
export type VerbMethods<V extends SqlVerbs> = {
  readonly [N in keyof V]: V[N] extends (query: SqlQuery, ...args: infer A) => infer R ? (...args: A) => R : never
}

/** Runs a verb by its name, in this thread or in another. */
export type RunVerb = (name: string, args: readonly unknown[]) => Promise<unknown>

/** Runs a verb by its name in this thread. @throws Error if there is no verb of that name; as the verb */
export async function runVerb(
  verbs: SqlVerbs,
  name: string,
  query: SqlQuery,
  args: readonly unknown[]
): Promise<unknown> {
  const verb = verbs[name]
  if (verb === undefined) throw new Error(`express-did-auth: no such verb: ${name}`)
  // The types of the caller's methods ensure that the arguments match the verb.
  return verb(query, ...(args as never[]))
}

/** Creates a method for each verb. The methods run the verbs by `run`. */
export function createMethods<V extends SqlVerbs>(verbs: V, run: RunVerb): VerbMethods<V> {
  const methods = Object.keys(verbs).map((name) => [name, (...args: unknown[]) => run(name, args)])
  // Each method has the type of its verb.
  return Object.fromEntries(methods) as VerbMethods<V>
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
