import { AsyncLocalStorage } from 'node:async_hooks'
import type { Client } from './ports.js'

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
