import { DidAuthError } from '../errors.js'
import { storeVerbs, type Deadline, type Store } from '../ports.js'

const STORE_SECONDS = 5
const RETRY_AFTER_SECONDS = 5

/**
 * Puts a timeout of 5 s on every verb of a store, and turns each failure into the one error that is answered 503.
 *
 * @throws DidAuthError ERR_STORE, from every verb; ERR_BUSY as the store
 */
export function withTimeout(store: Store, deadline: Deadline): Store {
  const expired = (): Error => new Error('the store took too long')
  const verbs = [...Object.values(storeVerbs).flat(), 'ping' as const]
  const bounded = Object.fromEntries(
    verbs.map((verb) => {
      const run = store[verb].bind(store) as (...args: unknown[]) => Promise<unknown>
      const call = async (...args: unknown[]): Promise<unknown> => {
        try {
          return await deadline.within(STORE_SECONDS, () => run(...args), expired)
        } catch (cause) {
          if (cause instanceof DidAuthError && cause.code === 'ERR_BUSY') throw cause
          throw new DidAuthError('ERR_STORE', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })
        }
      }
      return [verb, call]
    })
  )
  return { ...(bounded as unknown as Store), close: () => store.close() }
}
