import { AsyncLocalStorage } from 'node:async_hooks'
import type { Client } from './ports.js'

/** The client whose request is being handled. Undefined outside a request, and unless {@link clientTracking} is on. */
export const currentClient = new AsyncLocalStorage<Client>()

/**
 * Whether requests set {@link currentClient}. Stores with few connections turn it on, to serve client networks in turn.
 * Off by default: before Node 24, `AsyncLocalStorage` slows every promise of the process. A GET behind `requireDid`
 * becomes slower by a quarter.
 */
export const clientTracking = { isOn: false }

/** Handles a request. While {@link clientTracking} is on, everything that `handle` starts knows its client. */
export function runAsClient<T>(findClient: () => Client, handle: () => T): T {
  return clientTracking.isOn ? currentClient.run(findClient(), handle) : handle()
}
