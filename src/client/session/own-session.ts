import { browser } from '../wire/browser.js'
import { DUPLICATE_COOKIE, PROTOCOL, UNAVAILABLE } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { parseFields } from '../wire/json.js'
import { sendAsDevice } from './load-device-key.js'
import { runWithLock } from './lock.js'
import type { Setting } from './options.js'
import { askJson } from '../wire/request.js'
import type { SignedIn } from './sign-in.js'
import { parseOwnSession, parseTokens } from './session-keeper.js'
import type { ClientSession, ReceivedSession, SessionKeeper, SessionRecord } from './session-keeper.js'
import { createRandomText } from '../wire/seal.js'
import { pause } from '../wire/timing.js'

const MAX_TRIES = 3
/** Longest pause before a retry. If the service requests a longer one, the user's next request tries again. */
const MAX_PAUSE_SECONDS = 5
/** Lifetime of a refresh token of a service with default options. */
const SESSION_SECONDS = 7 * 24 * 3600
/** Assumed lifetime of a cookie until `GET /session` returns the real one. */
const UNKNOWN_LIFE_SECONDS = 60
/** Number of reads of the storage, and the pause before each, before a refused refresh ends the session. */
const MAX_LOOKS = 10
const LATE_SECONDS = 0.2

/** Codes of the only responses that end a session. */
const ENDING = /^ERR_(REFRESH_TOKEN(_REUSED)?|BUSINESS_LOGIC|DEVICE_PROOF)$/

/** Whether this is server-side rendering in cookie mode, where the client has no cookies and sends no requests. */
function isServer({ usesCookies }: Setting): boolean {
  return usesCookies && !browser.window
}

async function readOwnSession(setting: Setting): Promise<ReceivedSession | undefined> {
  return parseOwnSession(await askJson(setting, { path: setting.paths.session }))
}

/** Loads the session from the storage or, in cookie mode, from the service. */
export async function loadSession(setting: Setting, keeper: SessionKeeper): Promise<void> {
  if (isServer(setting)) return
  const stored = await keeper.read()
  // A refresh whose response was lost may have left an outdated cookie. Only a retry of that refresh can replace it.
  const isUsable = stored && (!setting.usesCookies || (await keeper.findPendingKey(stored)))
  const session = (setting.usesCookies && (await readOwnSession(setting))) || (isUsable && stored)
  if (!session) return
  // Another tab may be refreshing the stored record of this session, so keep its `pair` and do not write it.
  const isStored = stored?.sessionId === session.sessionId
  const kept = isStored && stored
  const record = { pair: createRandomText(), ...kept, receivedAt: setting.wallSeconds(), ...session }
  keeper.use(record)
  if (!isStored) await keeper.write(record)
}

/** Stores the session that a login has opened, and ends the one that it replaces. */
export async function startSession(
  setting: Setting,
  keeper: SessionKeeper,
  { body, did, walletId }: SignedIn & { readonly walletId: string | undefined }
): Promise<ClientSession> {
  const { usesCookies } = setting
  const received = usesCookies ? await readOwnSession(setting) : parseTokens(body)
  if (received?.did !== did) {
    // `GET /session` shows no session if two cookies have one name. A logout then deletes both, and succeeds.
    if (
      usesCookies &&
      !received &&
      (await sendLogout(setting, {}).then(
        () => true,
        () => false
      ))
    ) {
      throw new DidAuthClientError(DUPLICATE_COOKIE)
    }
    const userMessage = received ? undefined : 'Your browser stored no cookie. Open the page over https.'
    throw new DidAuthClientError(PROTOCOL, { message: `No session of ${did}. Check cookies`, userMessage })
  }
  const { record: previous } = keeper
  const session = await keeper.start({
    pair: createRandomText(),
    ...received,
    walletId,
    receivedAt: setting.wallSeconds()
  })
  // The service ends the session of the cookies that it replaces in cookie mode.
  if (previous && !usesCookies) sendLogout(setting, previous).catch(() => undefined)
  return session
}

/**
 * Refreshes the tokens of a record once for all tabs, under a lock. The idempotency key is stored before the request is
 * sent. If the response is lost, a retry with that key is not mistaken for token theft. Only a refusal of the stored
 * refresh token deletes the tokens.
 *
 * @throws DidAuthClientError SESSION_ENDED; DUPLICATE_COOKIE, or UNAVAILABLE for other failures, which keep the tokens
 */
export async function renewSession(setting: Setting, keeper: SessionKeeper, stale: SessionRecord): Promise<void> {
  if (isServer(setting)) return
  await runWithLock(setting, () => replaceTokens(setting, keeper, stale))
  if (!setting.usesCookies) return
  // Runs outside the lock, which is only for the refresh. If it fails, the session is still valid.
  const pair = keeper.record?.pair
  const session = await readOwnSession(setting).catch(() => undefined)
  const stored = await keeper.read()
  if (!session || !stored || stored.pair !== pair) return
  await keeper.save({ ...stored, ...session, receivedAt: setting.wallSeconds() })
}

/** Ends the session at the service and here. Waits for a refresh by another tab, which would restore the cookies. */
export async function endSession(setting: Setting, keeper: SessionKeeper): Promise<void> {
  const { usesCookies } = setting
  const { record } = keeper
  if (!record) return
  if (!usesCookies) await keeper.end(record, 'loggedOut')
  await runWithLock(setting, () => sendLogout(setting, record)).catch((error: unknown) => {
    // Status 401 means that the session has already ended.
    if (parseFields(error).status !== 401) throw error
  })
  if (usesCookies) await keeper.end(record, 'loggedOut')
}

function sendLogout(setting: Setting, { pair, accessToken }: Partial<SessionRecord>): Promise<unknown> {
  return askJson(setting, {
    method: 'POST',
    path: setting.paths.logout,
    body: setting.usesCookies ? undefined : { refreshToken: pair },
    ...(accessToken && { headers: { Authorization: `DIDAuth ${accessToken}` } })
  })
}

async function replaceTokens(setting: Setting, keeper: SessionKeeper, stale: SessionRecord): Promise<void> {
  const { did } = stale
  // A missing record can mean a cleared storage in cookie mode. Header mode takes it for a logout in another tab.
  if (setting.usesCookies && !(await keeper.read())) await keeper.write(stale)
  const stored = await keeper.read(did)
  if (!stored) throw keeper.drop(stale, 'loggedOut')
  if (stored.pair !== stale.pair) {
    keeper.use(stored)
    if (!keeper.isNearEnd()) return
  }
  const pending = await keeper.findPendingKey(stored)
  const attempt = { key: pending ?? (await keeper.createPendingKey(stored)), tries: 1 }
  // A frozen tab has missed changes by others. Keep this read right before the request.
  if ((await keeper.read(did))?.pair !== stored.pair) return replaceTokens(setting, keeper, stale)
  // A request without a signal throws only DidAuthClientError.
  const outcome = await sendRefresh(setting, stored, attempt).catch((error: unknown) => error as DidAuthClientError)
  let latest = await keeper.read(did)
  // Tabs in separate processes see each other's `localStorage` late, even with the lock.
  for (let looks = 0; isRefusal(outcome) && latest?.pair === stored.pair && looks < MAX_LOOKS; looks += 1) {
    await pause(LATE_SECONDS)
    latest = await keeper.read(did)
  }
  if (!latest) throw keeper.drop(stale, 'loggedOut')
  // Another tab has already stored this response or a later one.
  if (latest.pair !== stored.pair) keeper.use(latest)
  else if (outcome instanceof Error)
    throw await handleRefreshFailure(setting, keeper, stored, outcome, !pending && attempt.tries === 1)
  else await keeper.save(outcome)
}

/** Sends the refresh, and retries it with the same key if the service is unavailable or rate limits it. */
async function sendRefresh(
  setting: Setting,
  stored: SessionRecord,
  attempt: { readonly key: string; tries: number }
): Promise<SessionRecord> {
  const { usesCookies, wallSeconds } = setting
  for (; ; attempt.tries += 1) {
    try {
      const body = await sendAsDevice(setting, stored, {
        method: 'POST',
        path: setting.paths.refreshToken,
        body: usesCookies ? undefined : { refreshToken: stored.pair },
        headers: { 'Idempotency-Key': attempt.key }
      })
      // Any other body with status 200 comes from a captive portal or another service.
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
 * Ends the session if the service refused the refresh token. Other failures become UNAVAILABLE.
 *
 * @param isFirst - whether this is the first attempt, so that no response was lost. If the token was replaced all the
 * same, someone else holds the newer one, and header mode ends the session at the service. With cookies, the cause may
 * be a tab whose storage was cleared
 */
async function handleRefreshFailure(
  setting: Setting,
  keeper: SessionKeeper,
  stored: SessionRecord,
  cause: DidAuthClientError,
  isFirst: boolean
): Promise<DidAuthClientError> {
  const { message, serverCode } = cause
  // Business logic of the service writes its text for users.
  const userMessage = cause.code === 'REFUSED' ? cause.userMessage : undefined
  // Copies the fields of the error without its prototype.
  // eslint-disable-next-line @typescript-eslint/no-misused-spread
  const details = { ...cause, message, userMessage, cause }
  if (cause.code === 'DUPLICATE_COOKIE') return cause
  if (!isRefusal(cause)) return new DidAuthClientError(UNAVAILABLE, details)
  if (isFirst && !setting.usesCookies && serverCode === 'ERR_REFRESH_TOKEN') {
    await sendLogout(setting, { ...stored, accessToken: '' }).catch(() => undefined)
  }
  const isOld = setting.wallSeconds() - stored.receivedAt > SESSION_SECONDS
  const reasonByAge = isOld ? 'expired' : 'revoked'
  const reason = serverCode?.endsWith('REUSED') ? 'reused' : reasonByAge
  return keeper.end(stored, serverCode?.endsWith('PROOF') ? 'deviceLost' : reason, details)
}

/**
 * Whether the service has refused the refresh token. An error without status means that the device lacks the key of the
 * session, so that no request was sent.
 */
function isRefusal(outcome: SessionRecord | DidAuthClientError): boolean {
  const { status = 401, serverCode } = parseFields(outcome)
  return status === 401 && ENDING.test(String(serverCode))
}
