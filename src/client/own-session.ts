import { browser } from './browser.js'
import { DidAuthClientError, ProtocolError, SessionEndedError } from './errors.js'
import { randomText, withLock } from './lock.js'
import type { Setting } from './options.js'
import { refresh } from './refresh.js'
import { callService } from './service-calls.js'
import type { ClientSession, SessionKeeper } from './session-keeper.js'
import { parseOwnSession, parseTokens, type ReceivedSession, type SessionRecord } from './session-record.js'

/** What each step needs: how to reach the service, and who keeps the session. */
export interface SessionParts {
  readonly setting: Setting
  readonly keeper: SessionKeeper
}

/** Whether this runs where pages are rendered: there a client with cookies has none, and does nothing by itself. */
function isServer({ usesCookies }: Setting['service']): boolean {
  return usesCookies === true && browser.window === undefined
}

/** Reads what the storage, or in cookie mode the service, knows of a session. */
export async function loadSession({ setting, keeper }: SessionParts): Promise<void> {
  const { service } = setting
  if (isServer(service)) return
  const stored = await keeper.read()
  if (!service.usesCookies) {
    if (stored !== undefined) keeper.hold(stored)
    return
  }
  const found = await readOwnSession(setting)
  if (found === undefined) return
  const receivedAt = service.timer.wallSeconds()
  // The record stays as it is where it is of this session: another tab may be refreshing it.
  const isStored = stored?.sessionId === found.sessionId
  const record = { ...found, receivedAt, pair: isStored ? stored.pair : randomText() }
  keeper.hold(record)
  if (!isStored) await keeper.write(record)
}

/** Keeps the session that a login has opened. */
export async function startSession(
  { setting, keeper }: SessionParts,
  body: unknown,
  did: string
): Promise<ClientSession> {
  const { service } = setting
  const received = service.usesCookies ? await readOwnSession(setting) : parseTokens(body)
  if (received?.did.toLowerCase() !== did.toLowerCase()) {
    throw new ProtocolError({
      message: `${service.url} knows no session of ${did} after its login: does it use cookies, and does this page keep them?`
    })
  }
  await keeper.start({ pair: randomText(), ...received, receivedAt: service.timer.wallSeconds() })
  const { sessionId, expiresAt } = received
  return keeper.session ?? { did, sessionId, expiresAt }
}

/** Replaces the tokens of a record. @throws SessionEndedError, UnavailableError */
export async function renewSession({ setting, keeper }: SessionParts, stale: SessionRecord): Promise<void> {
  const { name, service, storage, paths } = setting
  if (isServer(service)) return
  await refresh({ name, service, storage, keeper, path: paths.refreshToken }, stale)
  const { record } = keeper
  if (!service.usesCookies || record === undefined || record.pair === stale.pair) return
  // Outside the lock, because it is another request with the session. Without it the session is good all the same.
  const found = await readOwnSession(setting).catch(() => undefined)
  const stored = await keeper.read()
  if (found === undefined || stored?.pair !== record.pair) return
  await keeper.save({ ...stored, ...found, receivedAt: service.timer.wallSeconds() })
}

/**
 * Ends the session at the service and here.
 *
 * With cookies it waits for a refresh of another tab, whose answer would bring the cookies back.
 */
export async function endSession({ setting, keeper }: SessionParts): Promise<void> {
  const { name, service, storage, paths } = setting
  const { record } = keeper
  if (record === undefined) return
  const { accessToken, pair } = record
  const tell = async (): Promise<void> => {
    try {
      await callService(service, {
        path: paths.logout,
        body: service.usesCookies ? undefined : { refreshToken: pair },
        headers: accessToken === undefined ? {} : { Authorization: `DIDAuth ${accessToken}` }
      })
    } catch (error) {
      // It has ended already.
      if (!(error instanceof DidAuthClientError) || error.status !== 401) throw error
    }
  }
  const forget = (): Promise<void> => keeper.end(record, new SessionEndedError('loggedOut'))
  if (service.usesCookies) {
    await withLock({ name, storage, timer: service.timer }, tell)
    await forget()
  } else {
    await forget()
    await tell()
  }
}

async function readOwnSession({ service, paths }: Setting): Promise<ReceivedSession | undefined> {
  const { body } = await callService(service, { method: 'GET', path: paths.session })
  return parseOwnSession(body)
}
