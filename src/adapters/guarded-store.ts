import { DidAuthError } from '../errors.js'
import { storeVerbs, type Deadline, type Store } from '../ports.js'

const STORE_SECONDS = 5
const RETRY_AFTER_SECONDS = 5

/** A store of the application whose every failure, and every silence of 5 s, is the one error that is answered 503. */
export function guardedStore(store: Store, deadline: Deadline): Store {
  const expired = (): Error => new Error(`the store took longer than ${String(STORE_SECONDS)} s`)
  const guarded = Object.fromEntries(
    storeVerbs.map((verb) => {
      const run = store[verb].bind(store) as (...args: unknown[]) => Promise<unknown>
      const call = async (...args: unknown[]): Promise<unknown> => {
        try {
          return await deadline.within(STORE_SECONDS, () => run(...args), expired)
        } catch (cause) {
          throw new DidAuthError('ERR_STORE', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })
        }
      }
      return [verb, call]
    })
  )
  return { ...(guarded as unknown as Store), close: () => store.close() }
}
