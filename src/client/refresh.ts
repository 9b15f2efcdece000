import { ProtocolError, RefusedError, UnavailableError, type DidAuthClientError } from './errors.js'
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
    // Cookies outlive a storage that was cleared. Else, without a record, the user has signed out in another tab.
    const stored = (await keeper.read(stale.did)) ?? (setting.usesCookies ? stale : undefined)
    if (!stored) throw keeper.drop('loggedOut')
    if (stored.pair !== stale.pair) {
      keeper.hold(stored)
      if (!keeper.isNearEnd()) return
    }
    const pending = { ...stored, key: stored.key ?? randomText() }
    await keeper.write(pending)
    const outcome = await ask(setting, pending).catch(parseFailure)
    const now = await keeper.read(stale.did)
    if (!now) throw keeper.drop('loggedOut')
    // Another tab was faster, with the same answer or a later one.
    if (now.pair !== stored.pair) keeper.hold(now)
    else if (outcome instanceof Error) throw await failureOfRefresh(setting, keeper, stored, outcome)
    else await keeper.save(outcome)
  })
}

/** Sends the refresh, and sends it again with the same key where no answer of the service has come. */
async function ask(
  setting: Setting,
  pending: SessionRecord & { readonly key: string },
  tries = 1
): Promise<SessionRecord> {
  const { usesCookies, paths, wallSeconds } = setting
  try {
    const { body } = await callService(setting, {
      path: paths.refreshToken,
      body: usesCookies ? undefined : { refreshToken: pending.pair },
      headers: { 'Idempotency-Key': pending.key }
    })
    // What else answers 200 is the login page of a network, or another service.
    if (usesCookies && body) throw new ProtocolError({ message: 'No cookies, but a body' })
    const tokens = usesCookies ? { pair: randomText(), lifeSeconds: UNKNOWN_LIFE_SECONDS } : parseTokens(body)
    return { ...pending, key: undefined, ...tokens, receivedAt: wallSeconds() }
  } catch (error) {
    const { retryable, retryAfterSeconds = tries / 2 } = parseFailure(error)
    if (!retryable || tries === MAX_TRIES || retryAfterSeconds > MAX_PAUSE_SECONDS) throw error
    await pause(retryAfterSeconds)
    return ask(setting, pending, tries + 1)
  }
}

/** Ends the session where the service has refused it. */
async function failureOfRefresh(
  { wallSeconds }: Setting,
  keeper: SessionKeeper,
  stored: SessionRecord,
  cause: DidAuthClientError
): Promise<DidAuthClientError> {
  const { message, status, serverCode = '', retryAfterSeconds } = cause
  const details = { message, status, serverCode, retryAfterSeconds, cause }
  if (status !== 401 || !ENDING.test(serverCode)) return new UnavailableError(details)
  const isOld = wallSeconds() - stored.receivedAt > SESSION_SECONDS
  const reason = serverCode.endsWith('REUSED') ? 'reused' : isOld ? 'expired' : 'revoked'
  // What business logic says is written for users.
  const userMessage = cause instanceof RefusedError ? cause.userMessage : undefined
  return keeper.end(stored, reason, { ...details, userMessage })
}

/** Without a signal, a call of the service throws nothing else. */
function parseFailure(error: unknown): DidAuthClientError {
  return error as DidAuthClientError
}
