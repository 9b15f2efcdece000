import { DidAuthClientError, ProtocolError, RateLimitedError, SessionEndedError, UnavailableError } from './errors.js'
import { randomText, withLock } from './lock.js'
import type { Setting } from './options.js'
import { callService } from './service-calls.js'
import type { SessionKeeper } from './session-keeper.js'
import { parseTokens, type SessionRecord } from './session-record.js'
import { pause } from './timing.js'

const MAX_TRIES = 3
/** A service that asks for a longer pause gets it: the user's next request tries again. */
const MAX_PAUSE_SECONDS = 5
/** How long a refresh token of a service with default options is good. */
const SESSION_SECONDS = 7 * 24 * 3600
/** For how long a cookie is taken for good until `GET /session` has told. */
const UNKNOWN_LIFE_SECONDS = 60

/** The only answers that end a session. */
const ENDING = /^ERR_(REFRESH_TOKEN(_REUSED)?|BUSINESS_LOGIC)$/

/**
 * Replaces the tokens of a record, once for all tabs: within a lock, with an idempotency key that is stored before the
 * request is sent. So a refresh whose answer was lost is repeated, by this tab or another, and never taken for a theft.
 *
 * The tokens are forgotten only when the service refuses the very refresh token that is stored.
 *
 * @throws SessionEndedError; UnavailableError for everything else, and then the tokens are kept
 */
export function refresh(setting: Setting, keeper: SessionKeeper, stale: SessionRecord): Promise<void> {
  return withLock(setting, async () => {
    // Without a record the user has signed out elsewhere. Cookies outlive a storage that was cleared.
    const stored = (await keeper.read(stale.did)) ?? (setting.usesCookies ? stale : undefined)
    if (stored && stored.pair !== stale.pair && !keeper.isNearEnd(stored)) {
      keeper.hold(stored)
      return
    }
    let outcome: unknown
    if (stored) {
      const { key = randomText() } = stored
      await keeper.write({ ...stored, key })
      outcome = await ask(setting, stored, key).catch((error: unknown) => error)
    }
    const now = stored && (await keeper.read(stale.did))
    if (!now) {
      const ended = new SessionEndedError('loggedOut')
      keeper.drop(ended)
      throw ended
    }
    // Another tab was faster, with the same answer or a later one.
    if (now.pair !== stored.pair) keeper.hold(now)
    else if (isRecord(outcome)) await keeper.save(outcome)
    else throw await failureOfRefresh(setting, keeper, stored, outcome)
  })
}

/** Sends the refresh, and sends it again with the same key where no answer of the service has come. */
async function ask(setting: Setting, stored: SessionRecord, key: string): Promise<SessionRecord> {
  const { usesCookies, paths } = setting
  for (let tries = 1; ; tries += 1) {
    try {
      const { body } = await callService(setting, {
        path: paths.refreshToken,
        body: usesCookies ? undefined : { refreshToken: stored.pair },
        headers: { 'Idempotency-Key': key }
      })
      // What else answers 200 is the login page of a network, or another service.
      if (usesCookies && body) throw new ProtocolError({ message: 'No cookies, but a body' })
      const tokens = usesCookies ? { pair: randomText(), lifeSeconds: UNKNOWN_LIFE_SECONDS } : parseTokens(body)
      const { key: _used, ...before } = stored
      return { ...before, ...tokens, receivedAt: setting.wallSeconds() }
    } catch (error) {
      if (!(error instanceof UnavailableError || error instanceof RateLimitedError) || tries === MAX_TRIES) throw error
      const pauseSeconds = error.retryAfterSeconds ?? tries / 2
      if (pauseSeconds > MAX_PAUSE_SECONDS) throw error
      await pause(pauseSeconds)
    }
  }
}

/** Ends the session where the service has refused it. */
async function failureOfRefresh(
  { wallSeconds }: Setting,
  keeper: SessionKeeper,
  stored: SessionRecord,
  cause: unknown
): Promise<DidAuthClientError> {
  if (!(cause instanceof DidAuthClientError)) return new UnavailableError({ cause })
  const { message, status, serverCode = '', retryAfterSeconds } = cause
  const details = { message, status, serverCode, retryAfterSeconds, cause }
  if (status !== 401 || !ENDING.test(serverCode)) return new UnavailableError(details)
  const isOld = wallSeconds() - stored.receivedAt > SESSION_SECONDS
  const reason = serverCode.endsWith('REUSED') ? 'reused' : isOld ? 'expired' : 'revoked'
  const { userMessage } = cause
  const ended = new SessionEndedError(reason, { ...details, ...(/_B/.test(serverCode) && { userMessage }) })
  await keeper.end(stored, ended)
  return ended
}

function isRecord(outcome: unknown): outcome is SessionRecord {
  return !(outcome instanceof Error)
}
