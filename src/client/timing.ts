/** Time as the client knows it. Tests give a clock of their own. */
export interface ClientClock {
  /** Returns seconds; fractions are allowed. Only differences count, so that a wrong clock does no harm. */
  nowSeconds(): number
}

/** Time limit in seconds for waiting for a lock, and life of a lease. */
export const LOCK_SECONDS = 10

export function pause(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000))
}

/** Creates a signal that is aborted after some seconds, or with the caller's own. */
export function createTimeoutSignal(seconds: number, signal?: AbortSignal): AbortSignal {
  const timeout = AbortSignal.timeout(seconds * 1000)
  return signal ? AbortSignal.any([signal, timeout]) : timeout
}

/** Returns the result of a promise, unless a signal is aborted before. @throws the signal's reason */
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
