import type { EndedSession } from '../../ports.js'

/** Sessions that ended in one second. */
type Second = { sessionIds: string[]; listUntilSeconds: number }

/** Records of the ended sessions of one service, which outlive the sessions. */
export class EndedSessions {
  readonly #maxRecords: number
  /** Records by the second in which the sessions ended, in the order in which the seconds were added. */
  readonly #seconds = new Map<number, Second>()
  #size = 0

  constructor(maxRecords: number) {
    this.#maxRecords = maxRecords
  }

  /** Adds a record. First deletes the oldest second if it is listed no longer, or one record if there are too many. */
  add(sessionId: string, endedAtSeconds: number, listUntilSeconds: number, sweepSeconds: number): void {
    this.#makeRoom(sweepSeconds)
    const second = this.#seconds.get(endedAtSeconds) ?? { sessionIds: [], listUntilSeconds }
    second.sessionIds.push(sessionId)
    second.listUntilSeconds = Math.max(second.listUntilSeconds, listUntilSeconds)
    this.#seconds.set(endedAtSeconds, second)
    this.#size += 1
  }

  list(sinceSeconds: number, limit: number): EndedSession[] {
    const seconds = [...this.#seconds].filter(([endedAtSeconds]) => endedAtSeconds >= sinceSeconds)
    const listed: EndedSession[] = []
    for (const [endedAtSeconds, { sessionIds }] of seconds.sort(([left], [right]) => left - right)) {
      if (listed.length >= limit) break
      for (const sessionId of sessionIds) listed.push({ sessionId, endedAtSeconds })
    }
    return listed
  }

  #makeRoom(sweepSeconds: number): void {
    const [oldest] = this.#seconds
    if (oldest === undefined) return
    const [endedAtSeconds, { sessionIds, listUntilSeconds }] = oldest
    const isOver = sweepSeconds >= listUntilSeconds
    const deleted = isOver ? sessionIds.length : Number(this.#size >= this.#maxRecords)
    sessionIds.length -= deleted
    this.#size -= deleted
    if (sessionIds.length === 0) this.#seconds.delete(endedAtSeconds)
  }
}
