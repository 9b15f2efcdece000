import type { Settings } from '../config/settings.js'
import type { Clock, Curve, Deadline, ServiceKey, Store } from '../ports.js'
import {
  computeSessionTag,
  ENDED_LIST_SECONDS,
  ENDED_LIST_TYPE,
  MAX_ENDED_PER_LIST
} from '../protocol/ended-sessions.js'
import { limitMilliseconds } from '../time-limits.js'

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
  entries: string
  signedAtSeconds: number
  until: number
  more: boolean
}

/** Lists of ended sessions. Each is read and signed at most once per second, however many services ask for it. */
export class EndedSessionLists {
  /** Lists by the time at which they begin. */
  readonly #lists = new Map<number, { list: Promise<CachedList>; readAtSeconds: number }>()

  /**
   * Returns the list of sessions that ended after a time, with an overlap before it. It has about 10,000 sessions at
   * most, and then ends at a full second.
   * @param after - seconds since the Unix epoch; undefined: all sessions that are still listed
   * @throws DidAuthError ERR_STORE, ERR_SIGNER
   */
  async publish(parts: PublishParts, after: number | undefined): Promise<PublishedList> {
    const { settings, clock } = parts
    const now = clock.nowSeconds()
    const { listedSeconds = 0 } = settings
    const step = Math.max(MIN_STEP_SECONDS, Math.ceil(listedSeconds / MAX_STEPS))
    const oldest = now - listedSeconds
    const overlap = OVERLAP_SECONDS + Math.max(MIN_CLOCK_DIFFERENCE_SECONDS, settings.refreshReuseGraceSeconds)
    const roundDown = (seconds: number): number => Math.floor(seconds / step) * step
    for (const begin of this.#lists.keys()) if (begin < oldest - step - overlap) this.#lists.delete(begin)
    const requested = Math.min(after ?? oldest, now)
    const begin = requested <= oldest ? roundDown(oldest) : roundDown(requested) - overlap
    const list = await this.#read(parts, begin, now)
    // So many sessions ended before `after` that a reader would ask for the same list again.
    return after !== undefined && list.more && list.until <= requested ? this.#read(parts, requested, now) : list
  }

  #read(parts: PublishParts, begin: number, now: number): Promise<CachedList> {
    const previous = this.#lists.get(begin)
    if (previous?.readAtSeconds === now) return previous.list
    const list = (previous?.list ?? Promise.resolve(undefined))
      .catch(() => undefined)
      .then((cached) => signList(parts, begin, now, cached))
    this.#lists.set(begin, { list, readAtSeconds: now })
    list.catch(() => {
      if (this.#lists.get(begin)?.list === list) this.#lists.delete(begin)
    })
    return list
  }
}

/** Reads the sessions that ended from `begin` on. If they are those of a list of less than 20 s, returns that list. */
async function signList(
  parts: PublishParts,
  begin: number,
  now: number,
  cached: CachedList | undefined
): Promise<CachedList> {
  const { settings, curve, store, serviceKey, deadline } = parts
  const sessions = (await store.listEndedSessions?.(settings.serviceUrl, begin, MAX_ENDED_PER_LIST)) ?? []
  const more = sessions.length >= MAX_ENDED_PER_LIST
  const entries = sessions.map(({ sessionId }) => sessionId).join()
  if (cached?.entries === entries && cached.more === more && now - cached.signedAtSeconds < RENEWAL_SECONDS)
    return cached
  const ended = [...new Set(sessions.map(({ sessionId }) => computeSessionTag(curve, sessionId)))]
  // A list that has only its first second is complete for that second.
  const until = more ? Math.max(sessions.at(-1)?.endedAtSeconds ?? now, begin + 1) : now
  const { serviceDid: iss, serviceUrl: aud } = settings
  const payload = { iss, aud, iat: now, exp: now + ENDED_LIST_SECONDS, after: begin, until, more, ended }
  const jwt = await serviceKey.issueJwt(payload, deadline, ENDED_LIST_TYPE)
  return { jwt, etag: `"${computeSessionTag(curve, jwt)}"`, entries, signedAtSeconds: now, until, more }
}
