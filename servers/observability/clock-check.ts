/**
 * How far each instance may be from the one clock that all compare theirs with. Two of them are then at most twice as far
 * apart: the 5 s by which a new token may lie ahead of the clock of the instance that it is shown to.
 */
const MAX_SKEW_SECONDS = 2.5
/** How long a jump of the clock is told. */
const TOLD_SECONDS = 600

/** Another clock: what it shows, in seconds since the Unix epoch. */
export type ReferenceClock = () => Promise<number>

/**
 * Makes the check of the wall clock for `/ready`.
 *
 * @returns a check that rejects with the difference, where it is more than 2.5 s
 */
export function clockCheck(
  { name, read }: { name: string; read: ReferenceClock },
  nowSeconds = (): number => Date.now() / 1_000
): () => Promise<void> {
  return async () => {
    const before = nowSeconds()
    const reference = await read().catch(() => undefined)
    // Whoever keeps that clock is listed by itself.
    if (reference === undefined) return
    // The reference was read at some moment of the question.
    const difference = reference < before ? before - reference : Math.min(0, nowSeconds() - reference)
    if (Math.abs(difference) <= MAX_SKEW_SECONDS) return
    const side = difference > 0 ? 'ahead of' : 'behind'
    throw new Error(`${Math.round(Math.abs(difference))} s ${side} ${name}`)
  }
}

/** A clock that no correction moves, for a server alone: a jump of the wall clock shows for ten minutes. */
export function steadyClock(
  nowSeconds = (): number => Date.now() / 1_000,
  monotonicSeconds = (): number => performance.now() / 1_000
): ReferenceClock {
  const set = (): { wall: number; steady: number } => ({ wall: nowSeconds(), steady: monotonicSeconds() })
  let older = set()
  let newer = older
  return () => {
    if (monotonicSeconds() - newer.steady >= TOLD_SECONDS) [older, newer] = [newer, set()]
    return Promise.resolve(older.wall + monotonicSeconds() - older.steady)
  }
}
