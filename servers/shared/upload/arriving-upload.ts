/** How far back the speed of an upload is told. */
const PACE_MILLISECONDS = 5_000

/** An upload of some length while it arrives: what it holds in the room, and how fast it comes. */
export class ArrivingUpload {
  readonly holder: string | undefined
  /** Refuses the rest of it. */
  readonly end: () => void
  #bytes = 0
  /** What has come, less the longer ago it is: by a factor of e in 5 s. */
  #recentBytes = 0
  #firstMilliseconds: number | undefined
  #lastMilliseconds = 0

  /**
   * @param holder - whose it is
   * @param end - called when it has lost its place to others, and holds nothing any more
   */
  constructor(holder: string | undefined, end: () => void) {
    this.holder = holder
    this.end = end
  }

  /** Bytes that it holds. */
  get bytes(): number {
    return this.#bytes
  }

  /** Notes that so much has come, whether or not there is room for it. */
  arrive(bytes: number, nowMilliseconds: number): void {
    this.#firstMilliseconds ??= nowMilliseconds
    this.#recentBytes = this.#recentAt(nowMilliseconds) + bytes
    this.#lastMilliseconds = nowMilliseconds
  }

  /** Holds what has come. */
  keep(bytes: number): void {
    this.#bytes += bytes
  }

  /** Holds nothing any more, and answers how much it was. */
  letGo(): number {
    const bytes = this.#bytes
    this.#bytes = 0
    return bytes
  }

  /** Time since its first byte. */
  ageMilliseconds(nowMilliseconds: number): number {
    return nowMilliseconds - (this.#firstMilliseconds ?? nowMilliseconds)
  }

  /** How long it takes, as fast as it has come of late, to bring what it holds. */
  gatheringMilliseconds(nowMilliseconds: number): number {
    return (PACE_MILLISECONDS * this.#bytes) / this.#recentAt(nowMilliseconds)
  }

  #recentAt(nowMilliseconds: number): number {
    return this.#recentBytes * Math.exp((this.#lastMilliseconds - nowMilliseconds) / PACE_MILLISECONDS)
  }
}
