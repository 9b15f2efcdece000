import type { SqliteThread, SqlVerbs } from 'express-did-auth/stores/sqlite'
import { ServerError } from '../../http/server-error.js'
import { errorOf, storageFailure, type Refusal } from '../storage-error.js'
import type { ThreadVerbs } from './thread-verbs.js'

type Group = keyof ThreadVerbs
type Verb<G extends Group> = keyof ThreadVerbs[G] & string
type Method<G extends Group, V extends Verb<G>> = Extract<ThreadVerbs[G][V], (...args: never[]) => unknown>

/** Calls verbs of the thread, with the types that they have there. */
export class VerbCaller {
  readonly #client: SqliteThread<SqlVerbs>

  constructor(client: SqliteThread<SqlVerbs>) {
    this.#client = client
  }

  /** @throws ServerError, DidAuthError: what the verb refuses, or ERR_STORAGE_FULL, ERR_STORAGE */
  async call<G extends Group, V extends Verb<G>>(
    group: G,
    verb: V,
    ...args: Parameters<Method<G, V>>
  ): Promise<Exclude<ReturnType<Method<G, V>>, Refusal>> {
    let result: unknown
    try {
      result = await this.#client.call(`${group}.${verb}`, ...(args as never[]))
    } catch (error) {
      const failure = storageFailure(error)
      // Else the thread has ended, or the store is closed.
      throw failure instanceof ServerError ? failure : new ServerError('ERR_STORAGE', { cause: error })
    }
    if (isRefusal(result)) throw errorOf(result)
    return result as Exclude<ReturnType<Method<G, V>>, Refusal>
  }

  /** Closes the database once everything that was accepted is answered. */
  close(): Promise<void> {
    return this.#client.close()
  }
}

function isRefusal(result: unknown): result is Refusal {
  return typeof result === 'object' && result !== null && 'refused' in result
}
