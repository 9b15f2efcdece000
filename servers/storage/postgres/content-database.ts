import type { PostgresDatabase } from 'express-did-auth/stores/postgres'
import { DidAuthError } from 'express-did-auth'
import { ServerError } from '../../http/server-error.js'
import { storageFailure } from '../storage-error.js'
import type { TablePrefix } from './content-schema.js'
import { statementsOn, type Statement } from './statements.js'

export type Row = Readonly<Record<string, unknown>>

export interface Result {
  readonly rows: readonly Row[]
  readonly rowCount: number
}

/** Runs a statement. Those that are not awaited one by one are sent together. */
export type Query = (statement: Statement, values: readonly unknown[]) => Promise<Result>

/** The tables of a server in a database, with errors as stores of content throw them. */
export class ContentDatabase {
  readonly #database: PostgresDatabase
  readonly statement: ReturnType<typeof statementsOn>
  readonly #migrate: () => Promise<unknown>
  #opening: Promise<unknown> | undefined

  /** @param migrate - runs before the first statement, and again where it failed: the database may come later */
  constructor(
    database: PostgresDatabase,
    prefix: TablePrefix,
    migrate: () => Promise<unknown> = () => Promise.resolve()
  ) {
    this.#database = database
    this.#migrate = migrate
    this.statement = statementsOn(prefix)
  }

  /** One statement, which is a transaction. @throws ServerError ERR_STORAGE_FULL, ERR_STORAGE */
  async query(
    statement: Statement,
    values: readonly unknown[],
    options: { readonly isRepeatable?: boolean } = {}
  ): Promise<Result> {
    try {
      await this.#open()
      return await this.#database.query(statement, values, options)
    } catch (error) {
      throw failureOf(error)
    }
  }

  /** One transaction. @throws what `work` throws, as it is; ServerError ERR_STORAGE_FULL, ERR_STORAGE */
  async transaction<T>(
    work: (query: Query) => Promise<T>,
    options: { readonly repeatOn?: readonly string[]; readonly isRepeatable?: boolean } = {}
  ): Promise<T> {
    try {
      await this.#open()
      return await this.#database.transaction(work, options)
    } catch (error) {
      throw failureOf(error)
    }
  }

  #open(): Promise<unknown> {
    this.#opening ??= this.#migrate().catch((error: unknown) => {
      this.#opening = undefined
      throw error
    })
    return this.#opening
  }
}

/** What a failure of the database means. What is no failure of it, such as a refusal, stays as it is. */
function failureOf(error: unknown): unknown {
  if (!(error instanceof DidAuthError) || !['ERR_STORE', 'ERR_CONFIG'].includes(error.code)) return error
  const failure = storageFailure(error.cause)
  const { retryAfterSeconds } = error
  return failure instanceof ServerError
    ? failure
    : new ServerError('ERR_STORAGE', {
        cause: error.cause,
        ...(retryAfterSeconds !== undefined && { retryAfterSeconds })
      })
}
