import { AsyncLocalStorage } from 'node:async_hooks'
import type { Client } from './ports.js'

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
