import type { Settings } from '../config/settings.js'
import type { Clock, Curve, Deadline, EndedSession, ServiceKey, Store } from '../ports.js'
import {
  computeSessionTag,
  ENDED_LIST_SECONDS,
  ENDED_LIST_TYPE,
  MAX_ENDED_PER_LIST
} from '../protocol/ended-sessions.js'
import { limitMilliseconds } from '../time-limits.js'
import { charge, type Caller, type Quotas } from './limits.js'

/** Age from which an unchanged list is signed again, in seconds. It is below the validity of a list. */
const RENEWAL_SECONDS = ENDED_LIST_SECONDS / 3
const OVERLAP_SECONDS = limitMilliseconds.endedOverlap / 1000
const MIN_CLOCK_DIFFERENCE_SECONDS = limitMilliseconds.clockDifference / 1000
/** Step in which lists begin, in seconds, and the maximum number of steps: so there are few different lists. */
const [MIN_STEP_SECONDS, MAX_STEPS] = [60, 30]

/** Dependencies of a list. */
interface PublishParts {
  settings: Settings & { readonly serviceDid: string }
  clock: Clock
  curve: Curve
  store: Store
  quotas: Pick<Quotas, 'charge'>
  serviceKey: ServiceKey
  deadline: Deadline
}

/** A signed list of ended sessions. */
export interface PublishedList {
  jwt: string
  /** Changes with each signature. */
  etag: string
}

/** A signed list, and the values that decide whether it is signed again. */
interface CachedList extends PublishedList {
  /** Number of changes of the ended sessions before this list. */
  version: number
  signedAtSeconds: number
  until: number
  more: boolean
}

/** A session in lists, with its tag. */
interface ListedSession {
  readonly tag: string
  readonly endedAtSeconds: number
}

/**
 * Lists of ended sessions. The store is read at most once per second, and each list is signed at most once per second,
 * however many services ask for them.
 */
export class EndedSessionLists {
  readonly #sessions = new ListedSessions()
  /** Lists by the time at which they begin. */
  readonly #lists = new Map<number, { list: Promise<CachedList>; readAtSeconds: number }>()

  /**
   * Returns the list of sessions that ended after a time, with an overlap before it. It has about 10,000 sessions at
   * most, and then ends at a full second. Services that poll ask for what ended within the last step. Every other list
   * is charged to the budget `reads`, because a list costs a signature.
   * @param after - seconds since the Unix epoch; undefined: all sessions that are still listed
   * @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_STORE, ERR_SIGNER
   */
  async publish(parts: PublishParts, after: number | undefined, caller: Caller): Promise<PublishedList> {
    const { settings, clock } = parts
    const now = clock.nowSeconds()
    const { listedSeconds = 0 } = settings
    const step = Math.max(MIN_STEP_SECONDS, Math.ceil(listedSeconds / MAX_STEPS))
    const oldest = now - listedSeconds
    const overlap = OVERLAP_SECONDS + Math.max(MIN_CLOCK_DIFFERENCE_SECONDS, settings.refreshReuseGraceSeconds)
    const roundDown = (seconds: number): number => Math.floor(seconds / step) * step
    const requested = Math.min(after ?? oldest, now)
    if (requested < now - step) await charge(parts, caller, 'reads')
    const begins = { first: roundDown(oldest), requested: roundDown(requested) - overlap }
    for (const begin of this.#lists.keys()) if (begin < begins.first - overlap) this.#lists.delete(begin)
    const read = async (begin: number): Promise<CachedList> => {
      await this.#sessions.refresh(parts, begins.first, overlap)
      return this.#sign(parts, begin, now)
    }
    const list = await read(requested <= oldest ? begins.first : begins.requested)
    // So many sessions ended before `after` that a reader would ask for the same list again.
    return after !== undefined && list.more && list.until <= requested ? read(requested) : list
  }

  #sign(parts: PublishParts, begin: number, now: number): Promise<CachedList> {
    const previous = this.#lists.get(begin)
    if (previous?.readAtSeconds === now) return previous.list
    const list = (previous?.list ?? Promise.resolve(undefined))
      .catch(() => undefined)
      .then((cached) => signList(parts, begin, now, this.#sessions, cached))
    this.#lists.set(begin, { list, readAtSeconds: now })
    list.catch(() => {
      if (this.#lists.get(begin)?.list === list) this.#lists.delete(begin)
    })
    return list
  }
}

/** The ended sessions that the lists of a service contain, as they were read from the store. */
class ListedSessions {
  readonly #byId = new Map<string, ListedSession>()
  /** Sessions in the order of their ends; undefined after a change. */
  #sorted: ListedSession[] | undefined
  #version = 0
  /** Time until which all ends have been read. */
  #readUntil: number | undefined
  #reading: { read: Promise<void>; atSeconds: number } | undefined

  /** Number of changes, by which lists of the same sessions are recognised. */
  get version(): number {
    return this.#version
  }

  /**
   * Reads what ended since the last read, at most once per second. A write may be committed later than its time says,
   * so a read begins `overlap` seconds before the last one.
   * @param first - time before which nothing is listed
   * @throws DidAuthError ERR_STORE
   */
  refresh(parts: PublishParts, first: number, overlap: number): Promise<void> {
    const now = parts.clock.nowSeconds()
    if (this.#reading?.atSeconds === now) return this.#reading.read
    const earlier = this.#reading?.read.catch(() => undefined)
    const read = Promise.resolve(earlier).then(() => this.#read(parts, first, overlap, now))
    this.#reading = { read, atSeconds: now }
    read.catch(() => {
      if (this.#reading?.read === read) this.#reading = undefined
    })
    return read
  }

  /** Returns the tags of sessions that ended from a time on: about `limit`, and then all of the last second. */
  list(begin: number, limit: number): { tags: string[]; lastAtSeconds: number | undefined; isCut: boolean } {
    this.#sorted ??= [...this.#byId.values()].sort((left, right) => left.endedAtSeconds - right.endedAtSeconds)
    const listed = this.#sorted.filter(({ endedAtSeconds }) => endedAtSeconds >= begin)
    const isCut = listed.length >= limit
    const lastAtSeconds = listed.at(isCut ? limit - 1 : -1)?.endedAtSeconds
    const within = listed.filter(({ endedAtSeconds }) => endedAtSeconds <= (lastAtSeconds ?? begin))
    return { tags: within.map(({ tag }) => tag), lastAtSeconds, isCut }
  }

  async #read({ store, settings, curve }: PublishParts, first: number, overlap: number, now: number): Promise<void> {
    this.#dropBefore(first)
    // After the clock was set back, everything is read again.
    const isKnown = this.#readUntil !== undefined && this.#readUntil <= now
    let since: number | undefined = isKnown ? Math.max(first, Number(this.#readUntil) - overlap) : first
    while (since !== undefined) {
      const sessions: EndedSession[] =
        (await store.listEndedSessions?.(settings.serviceUrl, since, MAX_ENDED_PER_LIST)) ?? []
      for (const session of sessions) this.#add(curve, session)
      const lastAt = sessions.length < MAX_ENDED_PER_LIST ? undefined : sessions.at(-1)?.endedAtSeconds
      this.#readUntil = Math.min(lastAt ?? now, now)
      since = lastAt === undefined ? undefined : lastAt + 1
    }
  }

  #add(curve: Curve, { sessionId, endedAtSeconds }: EndedSession): void {
    const listed = this.#byId.get(sessionId)
    if (listed !== undefined && listed.endedAtSeconds >= endedAtSeconds) return
    this.#byId.set(sessionId, { tag: listed?.tag ?? computeSessionTag(curve, sessionId), endedAtSeconds })
    this.#sorted = undefined
    this.#version += 1
  }

  #dropBefore(first: number): void {
    for (const [sessionId, { endedAtSeconds }] of this.#byId) {
      if (endedAtSeconds >= first) continue
      this.#byId.delete(sessionId)
      this.#sorted = undefined
    }
  }
}

/** Signs the list of what ended from `begin` on. If no session was added to a list of less than 20 s, returns that. */
async function signList(
  parts: PublishParts,
  begin: number,
  now: number,
  sessions: ListedSessions,
  cached: CachedList | undefined
): Promise<CachedList> {
  const { settings, curve, serviceKey, deadline } = parts
  const { version } = sessions
  // A list from the future was signed before the clock was corrected.
  const isFresh =
    cached !== undefined && now >= cached.signedAtSeconds && now - cached.signedAtSeconds < RENEWAL_SECONDS
  if (isFresh && cached.version === version) return cached
  const { tags, lastAtSeconds, isCut: more } = sessions.list(begin, MAX_ENDED_PER_LIST)
  // A list that has only its first second is complete for that second.
  const until = more ? Math.max(lastAtSeconds ?? now, begin + 1) : now
  const { serviceDid: iss, serviceUrl: aud } = settings
  const payload = {
    iss,
    aud,
    iat: now,
    exp: now + ENDED_LIST_SECONDS,
    after: begin,
    until,
    more,
    ended: [...new Set(tags)]
  }
  const jwt = await serviceKey.issueJwt(payload, deadline, ENDED_LIST_TYPE)
  return { jwt, etag: `"${computeSessionTag(curve, jwt)}"`, version, signedAtSeconds: now, until, more }
}
