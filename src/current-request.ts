import { AsyncLocalStorage } from 'node:async_hooks'
import type { Client, Deadline } from './ports.js'
import { within } from './time.js'

/** Milliseconds that a request may last, business logic included. */
const REQUEST_MILLISECONDS = 10_000

/** One deadline for everything that a request waits for from now on: store verbs, business logic and what they call. */
export function requestDeadline(): Deadline {
  const endOfTime = performance.now() + REQUEST_MILLISECONDS
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

const clients = new AsyncLocalStorage<Client>()
/** Before Node 24, following a request costs every promise of the process: a quarter of a guarded GET. */
let isFollowed = false

/** From now on, {@link asClient} is followed: for stores whose few connections serve client networks in turn. */
export function followClients(): void {
  isFollowed = true
}

/** Runs `work`, so that all that it calls, later as well, is done for a client. */
export function asClient(client: () => Client, work: () => void): void {
  if (isFollowed) clients.run(client(), work)
  else work()
}

/** The client that the caller works for; undefined for work that no request caused. */
export function currentClient(): Client | undefined {
  return clients.getStore()
}
