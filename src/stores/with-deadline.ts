import { DidAuthError } from '../errors.js'
import { storeVerbs, type Store } from '../ports.js'
import { ownTime, type Deadline } from '../time.js'

const STORE_SECONDS = 5
const RETRY_AFTER_SECONDS = 5

/**
 * Limits the time of store calls. The returned function creates a store for a deadline (default `ownTime`), whose
 * methods take at most 5 s and at most the rest of the deadline.
 * @throws DidAuthError from every method: ERR_BUSY as the store throws it, ERR_STORE (503) for any other failure
 */
export function limitStoreTime(store: Store): (deadline?: Deadline) => Store {
  const expired = (): Error => new Error('the store took too long')
  const verbs = [...Object.values(storeVerbs).flat(), 'ping' as const].map((verb) => {
    const run = store[verb].bind(store) as (...args: unknown[]) => Promise<unknown>
    async function call(this: { deadline: Deadline }, ...args: unknown[]): Promise<unknown> {
      try {
        return await this.deadline.within(STORE_SECONDS, () => run(...args), expired)
      } catch (cause) {
        if (cause instanceof DidAuthError && cause.code === 'ERR_BUSY') throw cause
        throw new DidAuthError('ERR_STORE', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })
      }
    }
    return [verb, call]
  })
  // The stores of all requests share these methods through their prototype.
  const bounded = { ...Object.fromEntries(verbs), close: () => store.close() } as Store
  return (deadline = ownTime) => Object.assign(Object.create(bounded) as Store, { deadline })
}
