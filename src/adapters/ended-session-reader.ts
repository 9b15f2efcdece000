import { RecentEntries } from '../caches.js'
import { DidAuthError } from '../errors.js'
import type { Clock, EndedSessionsOptions, Logger, WaitUntil } from '../ports.js'
import { RESOURCE_TOKEN_SECONDS } from '../protocol/access-token.js'
import type { Curve } from '../protocol/curve.js'
import {
  computeSessionTag,
  ENDED_LIST_SECONDS,
  MAX_AHEAD_SECONDS,
  MAX_ENDED_LIST_BYTES,
  parseEndedSessions
} from '../protocol/ended-sessions.js'
import type { EndedSessionList } from '../protocol/ended-sessions.js'
import { isSignedBy } from '../protocol/jwt.js'
import { waitAtMost } from '../time.js'
import { limitMilliseconds } from '../time-limits.js'
import { describeFetchError, fetchBounded } from './fetch-bounded.js'
import type { IsSigned } from './named-keys.js'

const { listFetch: LIMIT_MILLISECONDS } = limitMilliseconds
const MAX_DISCOVERY_BYTES = 64 * 1024
/** Maximum number of stored tags, about 100 MB. A list with more is ignored. */
const MAX_TAGS = 1_000_000
/** Maximum number of lists that one poll fetches. */
const MAX_LISTS_PER_POLL = 100

/** Publisher of a list. */
export interface EndedSessionsSource {
  /** URL without the query. */
  url: string
  /** DIDs that may sign the list. */
  issuers: readonly string[]
  audience: string
  /** Finds the keys of one of these DIDs. */
  findKeys: (issuer: string) => IsSigned | Promise<IsSigned>
}

/** Dependencies of a reader. */
export interface EndedSessionReaderParts {
  clock: Clock
  logger: Pick<Logger, 'warn'>
  /** Hash of session ids and lists. */
  curve: Pick<Curve, 'sha256'>
  /** Finds the publisher. A rejection counts as a list that is unavailable. */
  findSource: () => Promise<EndedSessionsSource>
}

/**
 * Reader of the list of ended sessions of one service. It has no timer: a request starts a fetch when the last one is
 * `pollSeconds` old. Tags are only added; they are dropped after twice the period of the first list, when the access
 * tokens of their sessions have expired.
 */
export class EndedSessionReader {
  readonly #parts: EndedSessionReaderParts
  readonly #pollSeconds: number
  readonly #maxStaleSeconds: number
  readonly #whenStale: 'accept' | 'refuse'
  readonly #waitUntil: WaitUntil | undefined
  /** Tags of this period and of the period before. */
  #tags = new Set<string>()
  #earlierTags = new Set<string>()
  /** Cache: a hash in JavaScript costs a seventh of a request. */
  readonly #tagBySession = new RecentEntries<string>()
  #periodSeconds = Infinity
  #periodBeganAt = -Infinity
  #last: { list: EndedSessionList; url: string; etag: string | null; readAtSeconds: number } | undefined
  /** Time at which the last accepted list was known to be current. */
  #freshAtSeconds = -Infinity
  #polledAtSeconds = -Infinity
  #poll: Promise<void> | undefined
  #hasWaited = false
  #hasWarned = false
  #hasWarnedOfClock = false

  constructor(parts: EndedSessionReaderParts, options: EndedSessionsOptions = {}) {
    const { pollSeconds = 2, maxStaleSeconds = 30, whenStale = 'refuse', waitUntil } = options
    this.#parts = parts
    // A stale list is always due.
    this.#pollSeconds = Math.min(pollSeconds, maxStaleSeconds)
    this.#maxStaleSeconds = maxStaleSeconds
    this.#whenStale = whenStale
    this.#waitUntil = waitUntil
  }

  /**
   * Asserts that a session has not ended. Returns at once while the list is fresh.
   * @param sessionId - `sid` of a verified token; a token without it is accepted
   * @throws DidAuthError ERR_SESSION_ENDED; ERR_ENDED_SESSIONS if the list is stale and `whenStale` is `refuse`
   */
  assertActive(sessionId: string | undefined, waitUntil = this.#waitUntil): Promise<void> | undefined {
    if (sessionId === undefined) return undefined
    const now = this.#parts.clock.nowSeconds()
    const poll = this.#isPollDue(now) ? this.#startPoll(now) : this.#poll
    if (poll !== undefined) waitUntil?.(poll)
    this.#assertNotListed(sessionId)
    if (!this.#isStale(now)) return undefined
    // Only the first list is waited for with `accept`: an outage of the publisher must not delay every request.
    return this.#assertAfter(this.#hasWaited && this.#whenStale === 'accept' ? undefined : poll, sessionId)
  }

  async #assertAfter(poll: Promise<void> | undefined, sessionId: string): Promise<void> {
    await waitAtMost(LIMIT_MILLISECONDS, poll)
    this.#hasWaited = true
    const isStale = this.#isStale(this.#parts.clock.nowSeconds())
    if (isStale && this.#whenStale === 'refuse') throw new DidAuthError('ERR_ENDED_SESSIONS', { retryAfterSeconds: 2 })
    if (isStale) this.#warnOnce('the list of ended sessions is unavailable: logged out sessions are accepted')
    this.#assertNotListed(sessionId)
  }

  #assertNotListed(sessionId: string): void {
    if (this.#tags.size + this.#earlierTags.size === 0) return
    const tag = this.#tagBySession.get(sessionId) ?? computeSessionTag(this.#parts.curve, sessionId)
    this.#tagBySession.set(sessionId, tag)
    if (this.#tags.has(tag) || this.#earlierTags.has(tag)) throw new DidAuthError('ERR_SESSION_ENDED')
  }

  #isStale(now: number): boolean {
    return Math.abs(now - this.#freshAtSeconds) > this.#maxStaleSeconds
  }

  /** Whether to start a poll. In Workers, a fetch of another request may have been cancelled: it is not waited for. */
  #isPollDue(now: number): boolean {
    const age = Math.abs(now - this.#polledAtSeconds)
    return age >= this.#pollSeconds && (this.#poll === undefined || age * 1000 > LIMIT_MILLISECONDS)
  }

  #startPoll(now: number): Promise<void> {
    this.#polledAtSeconds = now
    const poll = this.#readLists()
      .catch((error: unknown) => {
        this.#warnOnce('the list of ended sessions could not be fetched', describeFetchError(error))
      })
      .finally(() => {
        if (this.#poll === poll) this.#poll = undefined
      })
    return (this.#poll = poll)
  }

  async #readLists(): Promise<void> {
    const source = await this.#parts.findSource()
    // An end in the future comes from a wrong clock: the list has nothing that ended after it was read.
    const lastUntil = Math.min(this.#last?.list.until ?? -Infinity, this.#last?.readAtSeconds ?? Infinity)
    // After a long pause, the publisher has dropped what ended first: the whole list is read again.
    const isRecent = this.#parts.clock.nowSeconds() - lastUntil <= RESOURCE_TOKEN_SECONDS
    let after = isRecent ? lastUntil : undefined
    for (let count = 0; count < MAX_LISTS_PER_POLL; count += 1) {
      const list = await this.#readList(source, after)
      if (list?.more !== true || list.until === after) return
      after = list.until
    }
  }

  /**
   * Fetches the list of what ended after a time; undefined: the whole list.
   * @returns undefined if the list is ignored because a clock is wrong
   * @throws Error if the list has to be ignored for another reason
   */
  async #readList(source: EndedSessionsSource, after: number | undefined): Promise<EndedSessionList | undefined> {
    const { url: listUrl, findKeys, issuers, audience } = source
    const url = after === undefined ? listUrl : `${listUrl}?after=${String(after)}`
    const etag = this.#last?.url === url ? this.#last.etag : null
    const headers: Record<string, string> = etag === null ? {} : { 'If-None-Match': etag }
    const limits = { milliseconds: LIMIT_MILLISECONDS, maxBytes: MAX_ENDED_LIST_BYTES }
    const answer = await fetchBounded(url, { headers, cache: 'no-store' }, limits)
    const now = this.#parts.clock.nowSeconds()
    if (answer.status === 304 && etag !== null && this.#last !== undefined) {
      const { list } = this.#last
      if (!list.more) this.#freshAtSeconds = Math.min(now, list.exp)
      return list
    }
    if (answer.status !== 200) throw new Error(`${url} answered ${String(answer.status)}`)
    const expected = { issuers, audience, after, lastUntil: this.#last?.list.until, nowSeconds: now }
    const unverified = parseEndedSessions(answer.text, expected)
    if (unverified === undefined) throw new Error(`${url} answered an invalid list`)
    const { issuer, jwt, ...list } = unverified
    const sha256: Curve['sha256'] = (data) => this.#parts.curve.sha256(data)
    // The keys of the issuer are in `verify`, which ignores the public key.
    if (!isSignedBy({ sha256, verify: await findKeys(issuer) }, jwt, new Uint8Array()))
      throw new Error(`${url} answered a list with an invalid signature`)
    if (list.until > now + MAX_AHEAD_SECONDS) {
      this.#warnOfClock(url, list.until, now)
      return undefined
    }
    this.#add(list, now)
    this.#last = { list, url, etag: answer.headers.get('etag'), readAtSeconds: now }
    if (!list.more) {
      this.#freshAtSeconds = now
      this.#hasWarned = false
    }
    return list
  }

  /** Adds the tags of a list. @throws Error if there are too many */
  #add(list: EndedSessionList, now: number): void {
    if (this.#last === undefined) {
      this.#periodSeconds = Math.max(list.exp - list.after, ENDED_LIST_SECONDS)
      this.#periodBeganAt = now
    } else if (now - this.#periodBeganAt >= this.#periodSeconds) {
      this.#earlierTags = this.#tags
      this.#tags = new Set()
      this.#periodBeganAt = now
    }
    if (this.#tags.size + this.#earlierTags.size + list.ended.length > MAX_TAGS)
      throw new RangeError('too many sessions ended')
    for (const tag of list.ended) this.#tags.add(tag)
  }

  /** Warns once: next to an instance with the right time, such lists alternate with valid ones. */
  #warnOfClock(url: string, until: number, now: number): void {
    if (this.#hasWarnedOfClock) return
    this.#hasWarnedOfClock = true
    const reason = `${url} answered a list until ${String(until)}, and the time here is ${String(now)}: correct the clock`
    this.#parts.logger.warn({ event: 'ended-sessions', reason }, 'a list of ended sessions from the future is ignored')
  }

  #warnOnce(message: string, reason?: string): void {
    if (this.#hasWarned) return
    this.#hasWarned = true
    this.#parts.logger.warn({ event: 'ended-sessions', ...(reason !== undefined && { reason }) }, message)
  }
}

/** Fetches the discovery document of a service. @throws Error if it is unavailable */
export async function fetchDiscovery(serviceUrl: string): Promise<unknown> {
  const url = `${serviceUrl.replace(/\/$/, '')}/.well-known/did-auth.json`
  const limits = { milliseconds: LIMIT_MILLISECONDS, maxBytes: MAX_DISCOVERY_BYTES }
  const { status, text } = await fetchBounded(url, {}, limits)
  if (status !== 200) throw new Error(`${url} answered ${String(status)}`)
  return JSON.parse(text)
}
