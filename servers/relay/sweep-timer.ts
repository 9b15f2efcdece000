const MINUTE_MILLISECONDS = 60_000

/**
 * Runs work now and every minute, never twice at once, and keeps no process alive.
 *
 * @param signal - ends it
 * @param failed - told of each failure; the next minute is another chance
 * @returns resolves when it was ended and nothing is under way any more
 */
export async function sweepEveryMinute(
  work: () => Promise<void>,
  failed: (error: unknown) => void,
  signal: AbortSignal
): Promise<void> {
  let running: Promise<void> | undefined
  const run = (): void => {
    running ??= work()
      .catch(failed)
      .finally(() => {
        running = undefined
      })
  }
  run()
  const timer = setInterval(run, MINUTE_MILLISECONDS).unref()
  await new Promise((resolve) => {
    signal.addEventListener('abort', resolve)
  })
  clearInterval(timer)
  await running
}
