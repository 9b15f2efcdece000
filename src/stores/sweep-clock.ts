/** Readings of both clocks at one moment. */
type Sample = { wallSeconds: number; monotonicSeconds: number }

/** Length of two challenge windows of the default length. */
const DEFAULT_SUSTAINED_SECONDS = 600

/** Allowed drift between the clocks: rounding to whole seconds, differences between instances, and NTP slewing. */
const TOLERANCE_SECONDS = 5
const SLEW = 0.001

/**
 * Clock that decides which rows a sweep may delete. At the start and after a jump, the wall clock is trusted once it
 * has agreed with the monotonic clock for two challenge windows. Until then, time continues from the last trusted
 * reading.
 */
export class SweepClock {
  readonly #monotonicSeconds: () => number
  #sustainedSeconds: number
  #agreedSince: Sample | undefined
  /** Last reading at which the wall clock was trusted. */
  #trusted: Sample | undefined

  /** @param monotonicSeconds - reads a monotonic clock @param sustainedSeconds - how long both clocks must agree */
  constructor(monotonicSeconds = (): number => performance.now() / 1000, sustainedSeconds = DEFAULT_SUSTAINED_SECONDS) {
    this.#monotonicSeconds = monotonicSeconds
    this.#sustainedSeconds = sustainedSeconds
  }

  /** Learns the length of challenge windows if they are longer than the default. */
  observeWindow({ window, expiresAtSeconds }: { window: number; expiresAtSeconds: number }): void {
    if (this.#sustainedSeconds === 0) return
    this.#sustainedSeconds = Math.max(this.#sustainedSeconds, (2 * expiresAtSeconds) / (window + 1))
  }

  /** Returns the trusted time, at most `wallSeconds`; -Infinity until the clock was trusted for the first time. */
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
