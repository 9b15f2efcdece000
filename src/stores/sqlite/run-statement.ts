import type { SqlQuery, SqlResult, SqlRow, SqlStatement } from '../sql/query.js'
import type { SqlConnection, SqlStatement as SqliteStatement, SqlValue } from './sqlite-engine.js'

/** A statement as the connection keeps it, and the places of its parameters among the values. */
interface Prepared {
  readonly statement: SqliteStatement
  readonly places: readonly number[]
  readonly hasRows: boolean
}

/**
 * Runs statements on a connection, at once: the promise is resolved when it is returned.
 *
 * A text says `$1` for a value as PostgreSQL does; both engines bind values by their order.
 */
export function statementRunner(connection: SqlConnection): SqlQuery {
  const known = new Map<string, Prepared>()
  const prepare = ({ text }: SqlStatement): Prepared => {
    const places: number[] = []
    const statement = connection.prepare(
      text.replace(/\$(\d+)/g, (_, number: string) => {
        places.push(Number(number) - 1)
        return '?'
      })
    )
    const prepared = { statement, places, hasRows: /^\s*(?:SELECT|WITH|PRAGMA)|\bRETURNING\b/.test(text) }
    known.set(text, prepared)
    return prepared
  }
  const run = (statement: SqlStatement, values: readonly unknown[]): SqlResult => {
    const { places, hasRows, statement: prepared } = known.get(statement.text) ?? prepare(statement)
    // What a verb passes is a value of SQL, as the columns of its tables are.
    const bound = places.map((place) => values[place] as SqlValue)
    if (!hasRows) return { rows: [], rowCount: Number(prepared.run(...bound).changes), isRepeat: false }
    const rows: SqlRow[] = prepared.all(...bound)
    return { rows, rowCount: rows.length, isRepeat: false }
  }
  return async (statement, values = []) => run(statement, values)
}
