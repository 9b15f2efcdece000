import { browser } from './browser.js'
import { PROTOCOL, UNAVAILABLE } from './error-codes.js'
import { DidAuthClientError } from './errors.js'
import { parseFields } from './json.js'
import { runWithLock } from './lock.js'
import type { Setting } from './options.js'
import { askJson } from './request.js'
import type { SignedIn } from './sign-in.js'
import { parseOwnSession, parseTokens } from './session-keeper.js'
import type { ClientSession, ReceivedSession, SessionKeeper, SessionRecord } from './session-keeper.js'
import { createRandomText } from './seal.js'
import { pause } from './timing.js'

const MAX_TRIES = 3
/** Longest pause before a repeat. If the service requests a longer one, the user's next request tries again. */
const MAX_PAUSE_SECONDS = 5
/** Lifetime of a refresh token of a service with default options. */
const SESSION_SECONDS = 7 * 24 * 3600
/** The assumed life of a cookie until `GET /session` has told it. */
const UNKNOWN_LIFE_SECONDS = 60
/** How often, and after which pause, the storage is read again before a refusal ends the session. */
const MAX_LOOKS = 10
const LATE_SECONDS = 0.2

/** The only answers that end a session. */
const ENDING = /^ERR_(REFRESH_TOKEN(_REUSED)?|BUSINESS_LOGIC)$/

/** Whether this runs where pages are rendered: there a client with cookies has none, and does nothing. */
function isServer({ usesCookies }: Setting): boolean {
  return usesCookies && !browser.window
}

async function readOwnSession(setting: Setting): Promise<ReceivedSession | undefined> {
  return parseOwnSession(await askJson(setting, { path: setting.paths.session }))
}

/** Reads what the storage, or in cookie mode the service, knows of a session. */
export async function loadSession(setting: Setting, keeper: SessionKeeper): Promise<void> {
  if (isServer(setting)) return
  const stored = await keeper.read()
  // The cookie of an unanswered refresh may be outdated. Only a repeat of that refresh can replace it.
  const isKept = stored && (!setting.usesCookies || (await keeper.pendingKey(stored)))
  const found = (setting.usesCookies && (await readOwnSession(setting))) || (isKept ? stored : undefined)
  if (!found) return
  // The record stays as it is where it is of this session: another tab may be refreshing it.
  const isStored = stored?.sessionId === found.sessionId
  const pair = isStored ? stored.pair : createRandomText()
  const walletId = isStored ? stored.walletId : undefined
  const record = { walletId, receivedAt: setting.wallSeconds(), ...found, pair }
  keeper.hold(record)
  if (!isStored) await keeper.write(record)
}

/** Keeps the session that a login has opened. */
export async function startSession(
  setting: Setting,
  keeper: SessionKeeper,
  { body, did, walletId }: SignedIn & { readonly walletId: string | undefined }
): Promise<ClientSession> {
  const { usesCookies } = setting
  const received = usesCookies ? await readOwnSession(setting) : parseTokens(body)
  if (received?.did !== did) {
    const isLost = usesCookies && !received
    const userMessage = isLost ? 'This browser stored no cookie. Open the page over https.' : undefined
    throw new DidAuthClientError(PROTOCOL, { message: `No session of ${did}`, userMessage })
  }
  return keeper.start({ pair: createRandomText(), ...received, walletId, receivedAt: setting.wallSeconds() })
}

/**
 * Replaces the tokens of a record, once for all tabs: within a lock, with an idempotency key that is stored before the
 * request is sent, so that a refresh whose answer was lost is repeated and never taken for a theft. The tokens are
 * forgotten only when the service refuses the very refresh token that is stored.
 *
 * @throws DidAuthClientError SESSION_ENDED; UNAVAILABLE for everything else, after which the tokens stay stored
 */
export async function renewSession(setting: Setting, keeper: SessionKeeper, stale: SessionRecord): Promise<void> {
  if (isServer(setting)) return
  await runWithLock(setting, () => replaceTokens(setting, keeper, stale))
  if (!setting.usesCookies) return
  // Outside the lock, because it is another request with the session. The session is valid even if it fails.
  const pair = keeper.record?.pair
  const found = await readOwnSession(setting).catch(() => undefined)
  const stored = await keeper.read()
  if (!found || !stored || stored.pair !== pair) return
  await keeper.save({ ...stored, ...found, receivedAt: setting.wallSeconds() })
}

/** Ends the session at the service and here. It waits for another tab's refresh, which would bring cookies back. */
export async function endSession(setting: Setting, keeper: SessionKeeper): Promise<void> {
  const { usesCookies } = setting
  const { record } = keeper
  if (!record) return
  if (!usesCookies) await keeper.end(record, 'loggedOut')
  await runWithLock(setting, () => sendLogout(setting, record)).catch((error: unknown) => {
    // 401: the session has ended already.
    if (parseFields(error).status !== 401) throw error
  })
  if (usesCookies) await keeper.end(record, 'loggedOut')
}

function sendLogout(setting: Setting, { pair, accessToken }: SessionRecord): Promise<unknown> {
  return askJson(setting, {
    method: 'POST',
    path: setting.paths.logout,
    body: setting.usesCookies ? undefined : { refreshToken: pair },
    headers: accessToken ? { Authorization: `DIDAuth ${accessToken}` } : {}
  })
}

async function replaceTokens(setting: Setting, keeper: SessionKeeper, stale: SessionRecord): Promise<void> {
  const { did } = stale
  // Cookies outlive a storage that was cleared. Else, without a record, the user has signed out in another tab.
  if (setting.usesCookies && !(await keeper.read())) await keeper.write(stale)
  const stored = await keeper.read(did)
  if (!stored) throw keeper.drop(stale, 'loggedOut')
  if (stored.pair !== stale.pair) {
    keeper.hold(stored)
    if (!keeper.isNearEnd()) return
  }
  const pending = await keeper.pendingKey(stored)
  const attempt = { key: pending ?? (await keeper.newKey(stored)), tries: 1 }
  // A tab that was frozen until now has missed changes by others. Nothing may happen between this read and the request.
  if ((await keeper.read(did))?.pair !== stored.pair) return replaceTokens(setting, keeper, stale)
  // A request without a signal throws only this class.
  const outcome = await sendRefresh(setting, stored, attempt).catch((error: unknown) => error as DidAuthClientError)
  let now = await keeper.read(did)
  // Tabs in processes of their own see each other's `localStorage` late, whatever the lock.
  for (let looks = 0; isRefusal(outcome) && now?.pair === stored.pair && looks < MAX_LOOKS; looks += 1) {
    await pause(LATE_SECONDS)
    now = await keeper.read(did)
  }
  if (!now) throw keeper.drop(stale, 'loggedOut')
  // Another tab was faster, with the same answer or a later one.
  if (now.pair !== stored.pair) keeper.hold(now)
  else if (outcome instanceof Error)
    throw await handleRefreshFailure(setting, keeper, stored, outcome, !pending && attempt.tries === 1)
  else await keeper.save(outcome)
}

/** Sends the refresh, and repeats it with the same key if no answer of the service has arrived. */
async function sendRefresh(
  setting: Setting,
  stored: SessionRecord,
  attempt: { readonly key: string; tries: number }
): Promise<SessionRecord> {
  const { usesCookies, paths, wallSeconds } = setting
  for (; ; attempt.tries += 1) {
    try {
      const body = await askJson(setting, {
        method: 'POST',
        path: paths.refreshToken,
        body: usesCookies ? undefined : { refreshToken: stored.pair },
        headers: { 'Idempotency-Key': attempt.key }
      })
      // Any other body with status 200 is from the login page of a network, or from another service.
      if (usesCookies && body) throw new DidAuthClientError(PROTOCOL)
      const tokens = usesCookies ? { pair: createRandomText(), lifeSeconds: UNKNOWN_LIFE_SECONDS } : parseTokens(body)
      return { ...stored, ...tokens, receivedAt: wallSeconds() }
    } catch (error) {
      const { retryable, retryAfterSeconds = attempt.tries / 2 } = error as DidAuthClientError
      if (!retryable || attempt.tries === MAX_TRIES || retryAfterSeconds > MAX_PAUSE_SECONDS) throw error
      await pause(retryAfterSeconds)
    }
  }
}

/**
 * Ends the session where the service has refused it.
 *
 * @param isFirst - whether no answer to this client can be lost: then somebody else has used a token that was replaced,
 * and is signed out. With cookies, it could be a tab whose storage was cleared
 */
async function handleRefreshFailure(
  setting: Setting,
  keeper: SessionKeeper,
  stored: SessionRecord,
  cause: DidAuthClientError,
  isFirst: boolean
): Promise<DidAuthClientError> {
  const { message, serverCode } = cause
  // The text of business logic is written for users.
  const userMessage = cause.code === 'REFUSED' ? cause.userMessage : undefined
  // Copies only the error's own fields.
  // eslint-disable-next-line @typescript-eslint/no-misused-spread
  const details = { ...cause, message, userMessage, cause }
  if (!isRefusal(cause)) return new DidAuthClientError(UNAVAILABLE, details)
  if (isFirst && !setting.usesCookies && serverCode === 'ERR_REFRESH_TOKEN') {
    await sendLogout(setting, { ...stored, accessToken: '' }).catch(() => undefined)
  }
  const isOld = setting.wallSeconds() - stored.receivedAt > SESSION_SECONDS
  return keeper.end(stored, serverCode?.endsWith('REUSED') ? 'reused' : isOld ? 'expired' : 'revoked', details)
}

/** Whether the service has refused the refresh token. */
function isRefusal(outcome: SessionRecord | DidAuthClientError): boolean {
  const { status, serverCode } = parseFields(outcome)
  return status === 401 && ENDING.test(String(serverCode))
}
