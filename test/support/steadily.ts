const TICK_MILLISECONDS = 10
const MAX_ATTEMPTS = 50

/**
 * Runs an attempt whose outcome depends on real time, and runs it again when this process stood still meanwhile: what it
 * found then says something about the machine, and nothing about the code.
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
