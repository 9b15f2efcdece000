import { DidAuthError, RETRY_AFTER_SECONDS } from '../errors.js'
import { optionalVerbs, storeVerbs, type Store } from '../ports.js'
import { noDeadline, type Deadline } from '../time.js'
import { limitMilliseconds } from '../time-limits.js'
import { channels, trace } from '../tracing.js'

/**
 * Limits the time of store calls. The returned function creates a store for a deadline (default `noDeadline`). Calls of
 * its methods end after 5 s, or earlier at the deadline.
 * @throws DidAuthError from each method except `close`: the store's own ERR_BUSY and ERR_STORE, and ERR_STORE (503) for
 *   any other failure
 */
export function limitStoreTime(store: Store): (deadline?: Deadline) => Store {
  const expired = (): Error => new Error('the store took too long')
  const names = [...Object.values(storeVerbs).flat(), 'ping' as const, ...optionalVerbs]
  const methods = names.flatMap((name) => {
    if (store[name] === undefined) return []
    const run = store[name].bind(store) as (...args: unknown[]) => Promise<unknown>
    const callWithin = async (deadline: Deadline, args: unknown[]): Promise<unknown> => {
      try {
        return await deadline.within(limitMilliseconds.storeVerb / 1000, run.bind(undefined, ...args), expired)
      } catch (cause) {
        if (cause instanceof DidAuthError && ['ERR_BUSY', 'ERR_STORE'].includes(cause.code)) throw cause
        throw new DidAuthError('ERR_STORE', { cause, retryAfterSeconds: RETRY_AFTER_SECONDS })
      }
    }
    function call(this: { deadline: Deadline }, ...args: unknown[]): Promise<unknown> {
      const callStore = (): Promise<unknown> => callWithin(this.deadline, args)
      return channels.store?.hasSubscribers === true ? trace('store', { verb: name }, callStore) : callStore()
    }
    return [[name, call]]
  })
  // The stores of all requests share these methods through their prototype.
  const bounded = { ...Object.fromEntries(methods), close: () => store.close() } as Store
  return (deadline = noDeadline) => Object.assign(Object.create(bounded) as Store, { deadline })
}
