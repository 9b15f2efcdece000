/** Time as the client knows it. Tests give a clock of their own. */
export interface ClientClock {
  /** Seconds that only grow; fractions are allowed. Where the zero lies does not matter. */
  nowSeconds(): number
  /** Resolves after so many seconds, or once `signal` is aborted. The timers of the machine when absent. */
  wait?(seconds: number, signal: AbortSignal): Promise<void>
}

/** Time as the client's parts use it. */
export interface Timer {
  /** Monotonic: it measures how long a token has been here. */
  nowSeconds(): number
  /** The wall clock, which all tabs share. Only differences of it are used, so that it may be wrong. */
  wallSeconds(): number
  wait(seconds: number, signal: AbortSignal): Promise<void>
}

/** The machine's time, or the clock that a test gives. */
export function timerOf(clock: ClientClock | undefined): Timer {
  return {
    nowSeconds: () => clock?.nowSeconds() ?? performance.now() / 1000,
    wallSeconds: () => clock?.nowSeconds() ?? Date.now() / 1000,
    wait: (seconds, signal) => clock?.wait?.(seconds, signal) ?? wait(seconds, signal)
  }
}

/** Being aborted ends the wait, and is no error. */
function wait(seconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer)
      signal.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, seconds * 1000)
    signal.addEventListener('abort', end)
    if (signal.aborted) end()
  })
}

/**
 * What a promise comes to, unless the caller's signal is aborted before.
 *
 * @throws the signal's reason
 */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal | null | undefined): Promise<T> {
  if (!signal) return promise
  let stop = (): void => undefined
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => {
      // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- the caller's reason, whatever it is
      reject(signal.reason)
    }
    signal.addEventListener('abort', stop)
    if (signal.aborted) stop()
  })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
    // What ends later, with no caller left, is no unhandled rejection.
    promise.catch(() => undefined)
  }
}
