/** A value that is loaded on first use and then cached. */
export interface Lazy<T> {
  (): Promise<T>
  /** Makes the next call load again, if it still caches this promise. */
  forget(promise: Promise<T>): void
}

/**
 * Makes a function that calls `load` once and caches its promise. After a rejection, the next call loads again.
 *
 * @example
 * const curve = createLazy(() => loadCurve())
 * const { sha256 } = await curve()
 */
export function createLazy<T>(load: () => Promise<T>): Lazy<T> {
  let kept: Promise<T> | undefined
  const forget = (promise: Promise<T>): void => {
    if (kept === promise) kept = undefined
  }
  const get = (): Promise<T> => {
    if (kept !== undefined) return kept
    const promise = load()
    kept = promise
    promise.catch(() => forget(promise))
    return promise
  }
  return Object.assign(get, { forget })
}
