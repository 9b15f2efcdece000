/** Clock of the client. Tests replace it. */
export interface ClientClock {
  /** Returns seconds, also with fractions. Only differences count, so a wrong clock is harmless. */
  nowSeconds(): number
}

/** Time limit for waiting for a lock, and lifetime of a lease, in seconds. */
export const LOCK_SECONDS = 10

export function pause(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000))
}

/** Creates a signal that aborts after a timeout, or together with the caller's signal. */
export function createTimeoutSignal(seconds: number, signal?: AbortSignal): AbortSignal {
  const timeout = AbortSignal.timeout(seconds * 1000)
  return signal ? AbortSignal.any([signal, timeout]) : timeout
}

/** Returns the result of a promise, unless the signal aborts first. @throws the signal's reason */
export function raceWithAbort<T>(promise: Promise<T>, signal: AbortSignal | null | undefined): Promise<T> {
  if (!signal) return promise
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the caller's reason, of any kind
      reject(signal.reason)
    }
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop)
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop))
  })
}
