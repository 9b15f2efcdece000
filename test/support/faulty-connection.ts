import type { SqlConnection, SqlStatement } from '../../src/stores/sqlite/sqlite-engine.js'

/** A connection whose statements can be made to fail, to interrupt a transaction at any point. */
export interface FaultyConnection extends SqlConnection {
  /** Lets `statements` more statements work, and the next one fail: undone (`before`), or although it was done (`after`). */
  failAt(statements: number, when: 'before' | 'after'): void
  /** Whether the failure happened; nothing fails any more then. */
  hasFailed(): boolean
}

/** Wraps a connection. Only prepared statements fail, which all verbs are made of, `BEGIN` and `COMMIT` included. */
export function faultyConnection(connection: SqlConnection): FaultyConnection {
  let left = Infinity
  let when: 'before' | 'after' = 'before'
  const counted = <T>(run: () => T): T => {
    left -= 1
    if (left !== -1) return run()
    left = Infinity
    if (when === 'after') run()
    throw new Error('disk I/O error')
  }
  return {
    prepare(text): SqlStatement {
      const statement = connection.prepare(text)
      return {
        get: (...values) => counted(() => statement.get(...values)),
        all: (...values) => counted(() => statement.all(...values)),
        run: (...values) => counted(() => statement.run(...values))
      }
    },
    exec: (text) => connection.exec(text),
    close: () => connection.close(),
    failAt: (statements, at) => {
      left = statements
      when = at
    },
    hasFailed: () => left === Infinity
  }
}
