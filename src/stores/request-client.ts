import { AsyncLocalStorage } from 'node:async_hooks'
import type { Client } from '../ports.js'

const clients = new AsyncLocalStorage<Client>()
/** Following a request through its promises costs each of them a little, before Node 24. Without a queue nobody asks. */
let isFollowed = false

/** From now on, {@link asClient} is followed. */
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
