import { DidAuthClientError, ProtocolError, RateLimitedError, SessionEndedError, UnavailableError } from './errors.js'
import { randomText, withLock } from './lock.js'
import { callService, type Service } from './service-calls.js'
import type { SessionKeeper } from './session-keeper.js'
import { parseTokens, type SessionRecord } from './session-record.js'
import type { ClientStorage } from './storage.js'

const MAX_TRIES = 3
/** A service that asks for a longer pause gets it from the next request of the user. */
const MAX_PAUSE_SECONDS = 5
/** How long a refresh token of a service with default options is good. */
const SESSION_SECONDS = 7 * 24 * 3600
/** For how long a cookie is taken for good until `GET /session` has told. */
const UNKNOWN_LIFE_SECONDS = 60

/** The only answers that end a session. */
const ENDINGS = new Set<unknown>(['ERR_REFRESH_TOKEN', 'ERR_REFRESH_TOKEN_REUSED', 'ERR_BUSINESS_LOGIC'])

export interface RefreshParts {
  readonly name: string
  readonly service: Service
  readonly path: string
  readonly storage: ClientStorage
  readonly keeper: SessionKeeper
}

/**
 * Replaces the tokens of a record, once for all tabs: within a lock, with an idempotency key that is stored before the
 * request is sent. So a refresh whose answer was lost is repeated, by this tab or another, and never taken for a theft.
 *
 * The tokens are forgotten only when the service refuses the very refresh token that is stored.
 *
 * @throws SessionEndedError; UnavailableError for everything else, and then the tokens are kept
 */
export function refresh(parts: RefreshParts, stale: SessionRecord): Promise<void> {
  const { name, service, storage, keeper } = parts
  return withLock({ name, storage, timer: service.timer }, async () => {
    // Without a record the user has signed out elsewhere. Cookies outlive a storage that was cleared.
    const stored = (await keeper.read(stale.did)) ?? (service.usesCookies ? stale : undefined)
    if (stored === undefined) throw endElsewhere(keeper)
    if (stored.pair !== stale.pair && !keeper.isStale(stored)) {
      keeper.hold(stored)
      return
    }
    const { key = randomText() } = stored
    await keeper.write({ ...stored, key })
    const outcome = await ask(parts, stored, key).catch((error: unknown) => failureOfRefresh(error))
    const now = await keeper.read(stale.did)
    if (now === undefined) throw endElsewhere(keeper)
    if (now.pair !== stored.pair) {
      // Another tab was faster, with the same answer or a later one.
      keeper.hold(now)
    } else if (!(outcome instanceof DidAuthClientError)) {
      await keeper.save(outcome)
    } else if (outcome.status === 401 && ENDINGS.has(outcome.serverCode)) {
      const ended = endingOf(outcome, service.timer.wallSeconds() - stored.receivedAt)
      await keeper.end(stored, ended)
      throw ended
    } else {
      const { message, status, serverCode, retryAfterSeconds } = outcome
      throw new UnavailableError({ message, status, serverCode, retryAfterSeconds, cause: outcome })
    }
  })
}

/** Sends the refresh, and sends it again with the same key where no answer, or none of the service's own, arrived. */
async function ask({ service, path }: RefreshParts, stored: SessionRecord, key: string): Promise<SessionRecord> {
  const body = service.usesCookies ? undefined : { refreshToken: stored.pair }
  for (let tries = 1; ; tries += 1) {
    try {
      const answer = await callService(service, { path, body, headers: { 'Idempotency-Key': key } })
      return refreshed(stored, answer.body, service)
    } catch (error) {
      if (!(error instanceof UnavailableError || error instanceof RateLimitedError) || tries === MAX_TRIES) throw error
      const pauseSeconds = error.retryAfterSeconds ?? tries / 2
      if (pauseSeconds > MAX_PAUSE_SECONDS) throw error
      await service.timer.wait(pauseSeconds, new AbortController().signal)
    }
  }
}

/** @throws ProtocolError for an answer that is none, as of the login page of a network */
function refreshed(stored: SessionRecord, body: unknown, { usesCookies, timer }: Service): SessionRecord {
  const { did, sessionId, expiresAt } = stored
  const receivedAt = timer.wallSeconds()
  if (usesCookies) {
    if (body !== undefined) throw new ProtocolError({ message: 'The service sent something else than cookies' })
    return { did, sessionId, expiresAt, lifeSeconds: UNKNOWN_LIFE_SECONDS, receivedAt, pair: randomText() }
  }
  const record = { ...parseTokens(body), receivedAt }
  if (record.did !== did) throw new ProtocolError({ message: 'The service sent the tokens of another user' })
  return record
}

function failureOfRefresh(error: unknown): DidAuthClientError {
  return error instanceof DidAuthClientError ? error : new UnavailableError({ cause: error })
}

function endElsewhere(keeper: SessionKeeper): SessionEndedError {
  const error = new SessionEndedError('loggedOut')
  keeper.drop(error)
  return error
}

function endingOf(refusal: DidAuthClientError, ageSeconds: number): SessionEndedError {
  const { message, status, serverCode, userMessage } = refusal
  const isExpired = serverCode === 'ERR_REFRESH_TOKEN' && ageSeconds > SESSION_SECONDS
  const reason = serverCode === 'ERR_REFRESH_TOKEN_REUSED' ? 'reused' : isExpired ? 'expired' : 'revoked'
  const details = { message, status, serverCode, cause: refusal }
  return new SessionEndedError(reason, serverCode === 'ERR_BUSINESS_LOGIC' ? { ...details, userMessage } : details)
}
