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
