/**
 * Makes a function that runs one call for many: while a call under a key runs, others get its result.
 *
 * @example
 * const refreshOnce = createSingleFlight<Tokens>()
 * const tokens = await refreshOnce(() => refresh(session), session.id)
 */
export function createSingleFlight<T>(): (call: () => Promise<T>, key?: string) => Promise<T> {
  const running = new Map<string, Promise<T>>()
  return (call, key = '') => {
    const known = running.get(key)
    if (known !== undefined) return known
    const started = call().finally(() => running.delete(key))
    running.set(key, started)
    return started
  }
}
