import { setTimeout as pause } from 'node:timers/promises'
import type { SqlQuery, SqlRow, SqlVerb } from './sql-verb.js'
import { isBusy, type SqliteDatabase, type SqliteStatement } from './sqlite-database.js'

/** Attempts at a transaction while another process writes, and milliseconds between two: 4 s with the waits inside. */
const ATTEMPTS = 50
const PAUSE_MILLISECONDS = 30

/** Runs verbs on one database connection, each at one go; every text is prepared once. */
export class SqliteConnection {
  readonly #database: SqliteDatabase
  readonly #statements = new Map<string, SqliteStatement>()

  constructor(database: SqliteDatabase) {
    this.#database = database
  }

  /** Runs a verb that only reads. */
  read<T>(verb: SqlVerb<T>): T {
    return this.#drive(verb)
  }

  /**
   * Runs a verb in a transaction that is the only one to write from its beginning on, so that nothing changes between
   * its queries. While another process writes, it waits without holding this one up.
   */
  async write<T>(verb: () => SqlVerb<T>): Promise<T> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return this.transact(verb())
      } catch (error) {
        if (!isBusy(error) || attempt === ATTEMPTS) throw error
      }
      await pause(PAUSE_MILLISECONDS)
    }
  }

  /** As `write`, for once. @throws SqliteError SQLITE_BUSY when the busy timeout was too short */
  transact<T>(verb: SqlVerb<T>): T {
    // Possible only where the application uses its own database meanwhile; what it has begun is not ours to end.
    if (this.#isInTransaction()) throw new Error('express-did-auth: the database is in a transaction already')
    try {
      this.#execute(['BEGIN IMMEDIATE'])
      const result = this.#drive(verb)
      this.#execute(['COMMIT'])
      return result
    } catch (error) {
      // Some failures, a full disk among them, have rolled back already.
      if (this.#isInTransaction()) this.#execute(['ROLLBACK'])
      throw error
    }
  }

  close(): void {
    this.#database.close()
  }

  #isInTransaction(): boolean {
    return this.#database.inTransaction
  }

  #drive<T>(verb: SqlVerb<T>): T {
    let step = verb.next([])
    while (step.done !== true) step = verb.next(this.#execute(step.value))
    return step.value
  }

  #execute([text, ...values]: SqlQuery): readonly SqlRow[] {
    let statement = this.#statements.get(text)
    if (statement === undefined) {
      statement = this.#database.prepare(text)
      this.#statements.set(text, statement)
    }
    // To SQLite, `$1` is a parameter with the name 1.
    const named = values.length === 0 ? [] : [Object.fromEntries(values.map((value, index) => [index + 1, value]))]
    if (statement.reader) return statement.all(...named) as SqlRow[]
    statement.run(...named)
    return []
  }
}
