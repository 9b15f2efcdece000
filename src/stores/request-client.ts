import { AsyncLocalStorage } from 'node:async_hooks'
import type { Client, Deadline } from '../ports.js'

/** Seconds that a request may last, business logic included. */
const REQUEST_SECONDS = 10

interface RunningRequest {
  readonly client: Client
  /** Milliseconds, by `performance.now`. */
  readonly endOfTime: number
}

const requests = new AsyncLocalStorage<RunningRequest>()
/** Following a request through its promises costs each of them a little, before Node 24. In memory nobody asks. */
let isFollowed = false

/** From now on, {@link asClient} is followed. */
export function followClients(): void {
  isFollowed = true
}

/**
 * Runs `work`, so that all that it calls, later as well, is done for a client.
 *
 * @param seconds - that it may wait for others in all, see {@link withinRequest}
 */
export function asClient(client: () => Client, work: () => void, seconds = REQUEST_SECONDS): void {
  if (isFollowed) requests.run({ client: client(), endOfTime: performance.now() + seconds * 1000 }, work)
  else work()
}

/** The client that the caller works for; undefined for work that no request caused. */
export function currentClient(): Client | undefined {
  return requests.getStore()?.client
}

/** Ends each wait with the request that it is for: one deadline for its verbs, its business logic and what they ask. */
export function withinRequest(deadline: Deadline): Deadline {
  return {
    within(seconds, work, expired) {
      const left = ((requests.getStore()?.endOfTime ?? Infinity) - performance.now()) / 1000
      // What goes on after a request, such as a stream, has its own limits.
      return deadline.within(left > 0 ? Math.min(seconds, left) : seconds, work, expired)
    }
  }
}
