/** A value that is loaded on first use and then cached. */
export interface Lazy<T> {
  /** Returns the cached value, or loads it. Concurrent calls share one load. */
  (): Promise<T>
  /** Drops the cached value if it is this promise, so that the next call loads again. */
  forget(promise: Promise<T>): void
}

/**
 * Creates a function that calls `load` once and caches its promise. After a rejection, the next call loads again.
 *
 * @example
 * const curve = createLazy(() => loadCurve())
 * const { sha256 } = await curve()
 */
export function createLazy<T>(load: () => Promise<T>): Lazy<T> {
  let cached: Promise<T> | undefined
  const forget = (promise: Promise<T>): void => {
    if (cached === promise) cached = undefined
  }
  const get = (): Promise<T> => {
    if (cached !== undefined) return cached
    const promise = load()
    cached = promise
    promise.catch(() => forget(promise))
    return promise
  }
  return Object.assign(get, { forget })
}

/**
 * Creates a function that shares calls in flight: while a call under a key runs, further calls get its result.
 *
 * @example
 * const refreshOnce = createSingleFlight<Tokens>()
 * const tokens = await refreshOnce(() => refresh(session), session.id)
 */
export function createSingleFlight<T>(): (call: () => Promise<T>, key?: string) => Promise<T> {
  const running = new Map<string, Promise<T>>()
  return (call, key = '') => {
    const inFlight = running.get(key)
    if (inFlight !== undefined) return inFlight
    const started = call().finally(() => running.delete(key))
    running.set(key, started)
    return started
  }
}
