import { AsyncLocalStorage } from 'node:async_hooks'
import type { Client } from './ports.js'

const clients = new AsyncLocalStorage<Client>()
/**
 * Whether clients are tracked. Off by default: before Node 24, `AsyncLocalStorage` slows every promise of the process.
 * A GET behind `requireDid` becomes slower by a quarter.
 */
let isTracking = false

/** Turns on {@link runAsClient}. Stores with few connections need it to serve client networks in turn. */
export function trackClients(): void {
  isTracking = true
}

/**
 * Runs `work` for a client. If {@link trackClients} was called, {@link getCurrentClient} returns this client in `work`
 * and in everything that `work` starts.
 */
export function runAsClient(client: () => Client, work: () => void): void {
  if (isTracking) clients.run(client(), work)
  else work()
}

/** Returns the client whose request is being handled; undefined outside a request. */
export function getCurrentClient(): Client | undefined {
  return clients.getStore()
}
