/** The clock of this machine. */
export const systemClock = {
  /** Whole seconds since the Unix epoch. */
  nowSeconds: (): number => Math.floor(Date.now() / 1000)
}

const LATE = Symbol('late')

/**
 * Returns the result of `work`, unless it takes longer; it then continues. The timer does not keep a process alive.
 *
 * @throws what `work` rejects with, or the error of `expired` when it takes too long
 * @example
 * const row = await within(5_000, database.query(statement))
 */
export async function within<T>(
  milliseconds: number,
  work: T | PromiseLike<T>,
  expired: () => Error = () => new Error('no answer in time')
): Promise<T> {
  const result = await race(milliseconds, work)
  if (result === LATE) throw expired()
  return result
}

/** Returns the result of `work`, or undefined if that takes longer. The work itself continues. */
export async function waitAtMost<T>(milliseconds: number, work: T | PromiseLike<T>): Promise<T | undefined> {
  const result = await race(milliseconds, work)
  return result === LATE ? undefined : result
}

async function race<T>(milliseconds: number, work: T | PromiseLike<T>): Promise<T | typeof LATE> {
  // Node has objects for timers, browsers numbers, which keep no page open.
  let timer: unknown
  const late = new Promise<typeof LATE>((resolve) => {
    timer = setTimeout(resolve, Math.max(0, milliseconds), LATE)
    ;(timer as { unref?: () => void }).unref?.()
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer as number)
  }
}
