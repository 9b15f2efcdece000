import { browser } from './browser.js'
import { PROTOCOL } from './error-codes.js'
import { DidAuthClientError } from './errors.js'
import { parseFields } from './json.js'
import { randomText, withLock } from './lock.js'
import type { Setting } from './options.js'
import { refresh } from './refresh.js'
import { callService } from './service-calls.js'
import type { ClientSession, SessionKeeper } from './session-keeper.js'
import { parseOwnSession, parseTokens, type ReceivedSession, type SessionRecord } from './session-record.js'

/** Whether this runs where pages are rendered: there a client with cookies has none, and does nothing by itself. */
function isServer({ usesCookies }: Setting): boolean {
  return usesCookies && !browser.window
}

async function readOwnSession(setting: Setting): Promise<ReceivedSession | undefined> {
  return parseOwnSession((await callService(setting, { method: 'GET', path: setting.paths.session })).body)
}

/** Reads what the storage, or in cookie mode the service, knows of a session. */
export async function loadSession(setting: Setting, keeper: SessionKeeper): Promise<void> {
  if (isServer(setting)) return
  const stored = await keeper.read()
  // Where a refresh was not answered, the cookie may be one that only its repeat can replace.
  const isKept = stored && (!setting.usesCookies || (await keeper.pendingKey(stored)))
  const found = (setting.usesCookies && (await readOwnSession(setting))) || (isKept ? stored : undefined)
  if (!found) return
  // The record stays as it is where it is of this session: another tab may be refreshing it.
  const isStored = stored?.sessionId === found.sessionId
  const pair = isStored ? stored.pair : randomText()
  const record = { receivedAt: setting.wallSeconds(), ...found, pair }
  keeper.hold(record)
  if (!isStored) await keeper.write(record)
}

/** Keeps the session that a login has opened. */
export async function startSession(
  setting: Setting,
  keeper: SessionKeeper,
  { body, did }: { readonly body: unknown; readonly did: string }
): Promise<ClientSession> {
  const received = setting.usesCookies ? await readOwnSession(setting) : parseTokens(body)
  if (received?.did !== did)
    throw new DidAuthClientError(PROTOCOL, { message: `No session of ${did}. Are cookies kept?` })
  return keeper.start({ pair: randomText(), ...received, receivedAt: setting.wallSeconds() })
}

/** Replaces the tokens of a record. @throws DidAuthClientError SESSION_ENDED, UNAVAILABLE */
export async function renewSession(setting: Setting, keeper: SessionKeeper, stale: SessionRecord): Promise<void> {
  if (isServer(setting)) return
  await refresh(setting, keeper, stale)
  if (!setting.usesCookies) return
  // Outside the lock, because it is another request with the session. Without it the session is good all the same.
  const pair = keeper.record?.pair
  const found = await readOwnSession(setting).catch(() => undefined)
  const stored = await keeper.read()
  if (!found || !stored || stored.pair !== pair) return
  await keeper.save({ ...stored, ...found, receivedAt: setting.wallSeconds() })
}

/**
 * Ends the session at the service and here.
 *
 * It waits for a refresh of another tab, whose answer would bring the cookies back.
 */
export async function endSession(setting: Setting, keeper: SessionKeeper): Promise<void> {
  const { usesCookies, paths } = setting
  const { record } = keeper
  if (!record) return
  if (!usesCookies) await keeper.end(record, 'loggedOut')
  await withLock(setting, () =>
    callService(setting, {
      path: paths.logout,
      body: usesCookies ? undefined : { refreshToken: record.pair },
      headers: record.accessToken ? { Authorization: `DIDAuth ${record.accessToken}` } : {}
    })
  ).catch((error: unknown) => {
    // It has ended already.
    if (parseFields(error).status !== 401) throw error
  })
  if (usesCookies) await keeper.end(record, 'loggedOut')
}
