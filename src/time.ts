import { limitMilliseconds } from './time-limits.js'

/** The clock of this machine. */
export const systemClock = {
  /** Whole seconds since the Unix epoch. */
  nowSeconds: (): number => Math.floor(Date.now() / 1000)
}

/** Returns a clock of whole seconds: an application's clock may return fractions. */
export function toWholeSeconds(clock: { nowSeconds(): number }): { nowSeconds(): number } {
  return { nowSeconds: () => Math.floor(clock.nowSeconds()) }
}

const LATE = Symbol('late')

/**
 * Returns the result of `work` if it arrives in time. Late work continues, and its result is ignored. The timer does
 * not keep a process alive.
 *
 * @throws the rejection of `work`, or the error of `expired` after `milliseconds`
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

/** Returns the result of `work`, or undefined after `milliseconds`. The work itself continues. */
export async function waitAtMost<T>(milliseconds: number, work: T | PromiseLike<T>): Promise<T | undefined> {
  const result = await race(milliseconds, work)
  return result === LATE ? undefined : result
}

async function race<T>(milliseconds: number, work: T | PromiseLike<T>): Promise<T | typeof LATE> {
  // A timer is an object in Node and a number in browsers, where it needs no `unref`.
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

/** Point in time that all waits of a request share. */
export interface Deadline {
  /** Returns the result of `work`, or rejects with the error of `expired` after `seconds` or at the deadline. */
  within<T>(seconds: number, work: () => T | Promise<T>, expired: () => Error): Promise<T>
}

/** Creates the deadline of a request, which store calls, business logic and signers share. */
export function requestDeadline(): Deadline {
  const deadlineAt = performance.now() + limitMilliseconds.request
  return {
    async within(seconds, work, expired) {
      const left = deadlineAt - performance.now()
      if (left <= 0) throw expired()
      return within(Math.min(seconds * 1000, left), work(), expired)
    }
  }
}

/** Deadline for work outside of a request. It never ends: only the time limit of each wait applies. */
export const noDeadline: Deadline = {
  within: async (seconds, work, expired) => within(seconds * 1000, work(), expired)
}
