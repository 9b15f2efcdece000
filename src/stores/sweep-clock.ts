/** Both clocks at one moment. */
type Sample = { wallSeconds: number; monotonicSeconds: number }

/** Two windows of the default length. */
const DEFAULT_SUSTAINED_SECONDS = 600

/** How far the two clocks may drift apart: whole seconds of callers and instances, and what NTP slews. */
const TOLERANCE_SECONDS = 5
const SLEW = 0.001

/**
 * The time that a sweep may delete by. At the start and after a jump ahead, the wall clock counts once it has agreed
 * with the monotonic clock for two challenge windows. Until then the time continues from the last one that counted.
 */
export class SweepClock {
  readonly #monotonicSeconds: () => number
  #sustainedSeconds: number
  #agreedSince: Sample | undefined
  /** The last sample that counted. */
  #trusted: Sample | undefined

  /** @param monotonicSeconds - a monotonic clock @param sustainedSeconds - for how long the clocks have to agree */
  constructor(monotonicSeconds = (): number => performance.now() / 1000, sustainedSeconds = DEFAULT_SUSTAINED_SECONDS) {
    this.#monotonicSeconds = monotonicSeconds
    this.#sustainedSeconds = sustainedSeconds
  }

  /** Learns the length of challenge windows, where they are longer than the default. */
  observeWindow({ window, expiresAtSeconds }: { window: number; expiresAtSeconds: number }): void {
    if (this.#sustainedSeconds === 0) return
    this.#sustainedSeconds = Math.max(this.#sustainedSeconds, (2 * expiresAtSeconds) / (window + 1))
  }

  /** Returns at most `wallSeconds`; -Infinity in the first two windows. */
  sweepSeconds(wallSeconds: number): number {
    const now = { wallSeconds, monotonicSeconds: this.#monotonicSeconds() }
    if (this.#agreedSince === undefined || isJump(this.#agreedSince, now)) this.#agreedSince = now
    if (now.monotonicSeconds - this.#agreedSince.monotonicSeconds >= this.#sustainedSeconds) this.#trusted = now
    if (this.#trusted === undefined) return -Infinity
    const elapsedSeconds = now.monotonicSeconds - this.#trusted.monotonicSeconds
    return Math.min(wallSeconds, Math.floor(this.#trusted.wallSeconds + elapsedSeconds))
  }
}

function isJump(since: Sample, now: Sample): boolean {
  const elapsedSeconds = now.monotonicSeconds - since.monotonicSeconds
  const driftSeconds = Math.abs(now.wallSeconds - since.wallSeconds - elapsedSeconds)
  return driftSeconds > TOLERANCE_SECONDS + elapsedSeconds * SLEW
}
