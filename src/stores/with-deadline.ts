import { ownTime } from '../current-request.js'
import { DidAuthError } from '../errors.js'
import { storeVerbs, type Deadline, type Store } from '../ports.js'

const STORE_SECONDS = 5
const RETRY_AFTER_SECONDS = 5

/**
 * Gives each verb of a store at most 5 s, and what is left of the deadline that it is asked for; turns each failure
 * into the one error that is answered 503.
 *
 * @returns the store for one deadline, by default for work that no request waits for
 * @throws DidAuthError ERR_STORE, from every verb; ERR_BUSY as the store
 */
export function withStoreDeadline(store: Store): (deadline?: Deadline) => Store {
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
  // The verbs are made once, and shared by the stores of all requests.
  const bounded = { ...Object.fromEntries(verbs), close: () => store.close() } as Store
  return (deadline = ownTime) => Object.assign(Object.create(bounded) as Store, { deadline })
}
