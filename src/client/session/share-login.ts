import { raceWithAbort, throwIfAborted } from '../wire/timing.js'
import type { ClientSession } from './session-keeper.js'

/** A login in flight. */
interface SharedLogin {
  readonly key: readonly unknown[]
  readonly controller: AbortController
  readonly login: Promise<ClientSession>
  /** Number of the calls that wait for it. */
  waiting: number
}

const inFlight = new Set<SharedLogin>()

/**
 * Runs a login, or waits for the one with the same key: a second click must not open a second prompt. A signal ends
 * only the wait of its own call. Once all calls have aborted, it aborts the login.
 *
 * @param key - the client, the wallet, and what else distinguishes the login from others
 * @throws as `enter` does, or the reason of `signal`
 */
export async function shareLogin(
  key: readonly unknown[],
  signal: AbortSignal | undefined,
  enter: (signal: AbortSignal) => Promise<ClientSession>
): Promise<ClientSession> {
  throwIfAborted(signal)
  const shared =
    [...inFlight].find((other) => key.every((part, index) => part === other.key[index])) ?? start(key, enter)
  const { login, controller } = shared
  shared.waiting += 1
  return raceWithAbort(login, signal).catch((error: unknown) => {
    shared.waiting -= 1
    if (shared.waiting) throw error
    // The next call starts another login.
    inFlight.delete(shared)
    controller.abort(error)
    // If the service has already opened the session, this call still returns it.
    return login
  })
}

function start(key: readonly unknown[], enter: (signal: AbortSignal) => Promise<ClientSession>): SharedLogin {
  const controller = new AbortController()
  const login = enter(controller.signal).finally(() => inFlight.delete(started))
  const started = { key, controller, login, waiting: 0 }
  inFlight.add(started)
  return started
}
