import { AsyncLocalStorage } from 'node:async_hooks'
import { DidAuthError } from './errors.js'
import { storeVerbs, type Client, type Deadline, type Store } from './ports.js'
import { within } from './time.js'

/** Milliseconds that a request may last, business logic included. */
const REQUEST_MILLISECONDS = 10_000
const STORE_SECONDS = 5
const RETRY_AFTER_SECONDS = 5

interface RunningRequest {
  readonly client: Client
  /** Milliseconds, by `performance.now`. */
  readonly endOfTime: number
}

const requests = new AsyncLocalStorage<RunningRequest>()
/** Following a request through its promises costs each of them a little, before Node 24. In memory nothing needs it. */
let isFollowed = false

/** From now on, {@link asClient} is followed. */
export function followClients(): void {
  isFollowed = true
}

/** Runs `work`, so that all that it calls, later as well, is done for a client and ends with its request. */
export function asClient(client: () => Client, work: () => void): void {
  if (isFollowed) requests.run({ client: client(), endOfTime: performance.now() + REQUEST_MILLISECONDS }, work)
  else work()
}

/** The client that the caller works for; undefined for work that no request caused. */
export function currentClient(): Client | undefined {
  return requests.getStore()?.client
}

/** Ends each wait with the request that it is for: one deadline for its verbs, its business logic and what they ask. */
export const requestDeadline: Deadline = {
  async within(seconds, work, expired) {
    const own = seconds * 1000
    const left = (requests.getStore()?.endOfTime ?? Infinity) - performance.now()
    // What goes on after a request, such as a stream, has its own limits.
    return within(left > 0 ? Math.min(own, left) : own, work(), expired)
  }
}

/**
 * Gives each verb of a store at most 5 s, and turns each failure into the one error that is answered 503.
 *
 * @throws DidAuthError ERR_STORE, from every verb; ERR_BUSY as the store
 */
export function withStoreDeadline(store: Store): Store {
  const expired = (): Error => new Error('the store took too long')
  const verbs = [...Object.values(storeVerbs).flat(), 'ping' as const]
  const bounded = Object.fromEntries(
    verbs.map((verb) => {
      const run = store[verb].bind(store) as (...args: unknown[]) => Promise<unknown>
      const call = async (...args: unknown[]): Promise<unknown> => {
        try {
          return await requestDeadline.within(STORE_SECONDS, () => run(...args), expired)
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
