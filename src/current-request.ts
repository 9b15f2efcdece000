import { AsyncLocalStorage } from 'node:async_hooks'
import { DidAuthError } from './errors.js'
import { storeVerbs, type Client, type Deadline, type Store } from './ports.js'
import { within } from './time.js'

/** Milliseconds that a request may last, business logic included. */
const REQUEST_MILLISECONDS = 10_000
const STORE_SECONDS = 5
const RETRY_AFTER_SECONDS = 5

/** Creates the deadline of a request, which store calls, business logic and signers share. */
export function requestDeadline(): Deadline {
  const deadlineAt = performance.now() + REQUEST_MILLISECONDS
  return {
    async within(seconds, work, expired) {
      const left = deadlineAt - performance.now()
      if (left <= 0) throw expired()
      return within(Math.min(seconds * 1000, left), work(), expired)
    }
  }
}

/** Deadline of work that belongs to no request: each wait has its own time limit. */
export const ownTime: Deadline = { within: async (seconds, work, expired) => within(seconds * 1000, work(), expired) }

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

const clients = new AsyncLocalStorage<Client>()
/** Off by default: before Node 24, it slows every promise of the process, by a quarter for a guarded GET. */
let isFollowed = false

/** Turns on {@link runAsClient}, for stores that share few connections fairly between client networks. */
export function followClients(): void {
  isFollowed = true
}

/** Runs `work` for a client: {@link getCurrentClient} returns it in `work` and in everything that `work` starts. */
export function runAsClient(client: () => Client, work: () => void): void {
  if (isFollowed) clients.run(client(), work)
  else work()
}

/** Returns the client whose request is being handled; undefined outside a request. */
export function getCurrentClient(): Client | undefined {
  return clients.getStore()
}
