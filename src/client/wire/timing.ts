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

/**
 * Runs work with a signal that aborts after a timeout, or together with the caller's signal. React Native lacks
 * `AbortSignal.timeout` and `AbortSignal.any`.
 *
 * @throws the caller's reason, or Error after the timeout, also if the work ignores its signal
 */
export function runWithin<T>(
  seconds: number,
  signal: AbortSignal | null | undefined,
  work: (signal: AbortSignal) => Promise<T>
): Promise<T> {
  const controller = new AbortController()
  const stop = (): void => controller.abort(getReason(signal))
  const expire = (): void => controller.abort(Object.assign(Error('Timed out'), { name: 'TimeoutError' }))
  const timer = setTimeout(expire, seconds * 1000)
  if (signal?.aborted) stop()
  signal?.addEventListener('abort', stop)
  return raceWithAbort(work(controller.signal), controller.signal).finally(() => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
  })
}

/** Throws the reason of a signal that has aborted. React Native lacks `signal.throwIfAborted`. */
export function throwIfAborted(signal: AbortSignal | null | undefined): void {
  if (signal?.aborted) throw getReason(signal)
}

/** Returns the reason of an aborted signal. Signals of React Native have none. */
function getReason(signal: AbortSignal | null | undefined): unknown {
  return signal?.reason ?? Error('Aborted')
}

/** Returns the result of a promise, unless the signal aborts first. @throws the signal's reason */
export function raceWithAbort<T>(promise: Promise<T>, signal: AbortSignal | null | undefined): Promise<T> {
  if (!signal) return promise
  return new Promise((resolve, reject) => {
    const stop = (): void => {
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the caller's reason, of any kind
      reject(getReason(signal))
    }
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop)
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop))
  })
}
