import type { SqliteDatabase } from 'express-did-auth/stores/sqlite'

/** A database whose statements can be made to fail, to interrupt a verb at any point. */
export interface FaultyDatabase extends SqliteDatabase {
  /** Lets `statements` more statements work, and the next one fail: undone (`before`), or although it was done (`after`). */
  failAt(statements: number, when: 'before' | 'after'): void
  /** Whether the failure happened; nothing fails any more then. */
  hasFailed(): boolean
}

/** Wraps a better-sqlite3 database. */
export function faultyDatabase(database: SqliteDatabase): FaultyDatabase {
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
    get inTransaction() {
      return database.inTransaction
    },
    prepare: (text) => {
      const statement = database.prepare(text)
      return {
        reader: statement.reader,
        all: (...values) => counted(() => statement.all(...values)),
        run: (...values) => counted(() => statement.run(...values))
      }
    },
    exec: (text) => database.exec(text),
    close: () => database.close(),
    failAt: (statements, at) => {
      left = statements
      when = at
    },
    hasFailed: () => left === Infinity
  }
}
