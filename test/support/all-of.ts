/**
 * Runs work for all items, five at a time, and answers what came of each, in their order; what a work throws is its outcome.
 *
 * To be called in `beforeAll`. With `it.concurrent`, Jest 30 refuses every lazy import as soon as one of the tests has ended.
 */
export async function allOf<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<(R | Error)[]> {
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
