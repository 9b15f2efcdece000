import { setTimeout as pause } from 'node:timers/promises'
import { scaled } from './time-factor.js'

/** Waits until something is so. What is not so after 50 s is an error; no test depends on how long it takes. */
export async function until(isSo: () => unknown): Promise<void> {
  const end = performance.now() + scaled(50_000)
  while (!(await isSo())) {
    if (performance.now() > end) throw new Error(`it never became so: ${isSo.toString()}`)
    await pause(5)
  }
}

const TICK_MILLISECONDS = 10
const MAX_ATTEMPTS = 50

/**
 * Runs an attempt whose outcome depends on real time, and runs it again when this process stood still meanwhile: what
 * it found then says something about the machine, and nothing about the code.
 *
 * @param milliseconds - how long the process may stand still before the attempt says nothing
 */
export async function steadily<T>(milliseconds: number, attempt: () => Promise<T>): Promise<T> {
  for (let count = 1; ; count += 1) {
    let [last, longest] = [performance.now(), 0]
    const look = (): void => {
      const now = performance.now()
      longest = Math.max(longest, now - last - TICK_MILLISECONDS)
      last = now
    }
    const timer = setInterval(look, TICK_MILLISECONDS)
    const [outcome] = await Promise.allSettled([attempt()])
    look()
    clearInterval(timer)
    if (longest > milliseconds && count < MAX_ATTEMPTS) continue
    if (outcome.status === 'rejected') throw outcome.reason
    return outcome.value
  }
}

/**
 * Runs work for all items, five at a time, and answers what came of each, in their order; what a work throws is its
 * outcome.
 *
 * To be called in `beforeAll`. With `it.concurrent`, Jest 30 refuses every lazy import as soon as one of the tests has
 * ended.
 */
export async function runForAll<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<(R | Error)[]> {
  const outcomes: (R | Error)[] = []
  const ahead = [...items.entries()]
  const walk = async (): Promise<void> => {
    for (let next = ahead.shift(); next !== undefined; next = ahead.shift()) {
      const [place, item] = next
      outcomes[place] = await work(item).catch((error: unknown) => error as Error)
    }
  }
  await Promise.all(Array.from({ length: 5 }, walk))
  return outcomes
}
