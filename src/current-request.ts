import { AsyncLocalStorage } from 'node:async_hooks'
import { DidAuthError } from './errors.js'
import { storeVerbs, type Client, type Deadline, type Store } from './ports.js'
import { within } from './time.js'
import { limitMilliseconds } from './time-limits.js'

const RETRY_AFTER_SECONDS = 5

/** Creates one deadline for all that a request waits for: store verbs, business logic and what they call. */
export function requestDeadline(): Deadline {
  const endOfTime = performance.now() + limitMilliseconds.request
  return {
    async within(seconds, work, expired) {
      const left = endOfTime - performance.now()
      if (left <= 0) throw expired()
      return within(Math.min(seconds * 1000, left), work(), expired)
    }
  }
}

/** The time of work that no request waits for: each wait has its own. */
export const ownTime: Deadline = { within: async (seconds, work, expired) => within(seconds * 1000, work(), expired) }

/**
 * A store for each deadline, by default for `ownTime`: its verbs take at most 5 s, and what is left of the deadline.
 * @throws DidAuthError from every verb: ERR_BUSY as the store, ERR_STORE (503) for each other failure
 */
export function limitStoreTime(store: Store): (deadline?: Deadline) => Store {
  const expired = (): Error => new Error('the store took too long')
  const verbs = [...Object.values(storeVerbs).flat(), 'ping' as const].map((verb) => {
    const run = store[verb].bind(store) as (...args: unknown[]) => Promise<unknown>
    async function call(this: { deadline: Deadline }, ...args: unknown[]): Promise<unknown> {
      try {
        return await this.deadline.within(limitMilliseconds.storeVerb / 1000, () => run(...args), expired)
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

const clients = new AsyncLocalStorage<Client>()
/** Before Node 24, following a request costs every promise of the process: a quarter of a guarded GET. */
let isFollowed = false

/** Makes {@link runAsClient} count, for stores whose few connections serve client networks in turn. */
export function followClients(): void {
  isFollowed = true
}

/** Runs `work`: it and all that it calls, later as well, has this {@link getCurrentClient}. */
export function runAsClient(client: () => Client, work: () => void): void {
  if (isFollowed) clients.run(client(), work)
  else work()
}

/** Returns the client that the caller works for; undefined for work that no request caused. */
export function getCurrentClient(): Client | undefined {
  return clients.getStore()
}
