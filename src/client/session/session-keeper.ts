import { browser, type Channel } from '../wire/browser.js'
import { PROTOCOL, SESSION_ENDED } from '../wire/error-codes.js'
import { DidAuthClientError, type ClientErrorDetails, type SessionEndReason } from '../wire/errors.js'
import { isText, parseFields, parseJson } from '../wire/json.js'
import { loadDeviceKey } from './load-device-key.js'
import type { Setting } from './options.js'
import { decodeJwt } from '../wire/jwt.js'
import { createRandomText } from '../wire/seal.js'

/** Maximum length of a token in this protocol. Longer ones are refused, and never stored. */
const MAX_TOKEN_LENGTH = 8192

/** The client's user and session. */
export interface ClientSession {
  /** DID of the user, as the client sent it at login. */
  readonly did: string
  /** Id of the session at the service. It is no secret. */
  readonly sessionId: string
  /** Time at which the access token expires, in whole seconds by the service's clock. The session lasts longer. */
  readonly expiresAt: number
  /** Whether only this device can refresh the session, see the option `deviceKey`. */
  readonly isDeviceBound?: boolean | undefined
  /**
   * Claims of the current access token, such as those of the service's business logic. They are for display: the
   * service decides by the token itself. Undefined in cookie mode, where scripts cannot read the token.
   */
  readonly claims?: Readonly<Record<string, unknown>> | undefined
}

/** The stored form of a session, as JSON. */
export interface SessionRecord extends ClientSession {
  /** Lifetime of the access token in seconds: `exp - iat`, which is independent of this machine's clock. */
  readonly lifeSeconds: number
  /** Time at which the token was received, by this machine's wall clock. */
  readonly receivedAt: number
  /** The refresh token. In cookie mode, where scripts cannot read it, a random text that changes with it. */
  readonly pair: string
  /** Absent in cookie mode. */
  readonly accessToken?: string
  /** Id by which a reload restores the wallet of the login. Absent for a wallet without an id. */
  readonly walletId?: string | undefined
}

/** The answer of `GET /session`. */
export type ReceivedSession = ClientSession & Pick<SessionRecord, 'lifeSeconds'>

const endings = {
  expired: 'has expired',
  revoked: 'was ended',
  reused: 'was ended: its token was used twice',
  loggedOut: 'has ended: you logged out',
  deviceLost: 'was ended: this device lost its key'
}

type SessionEnded = DidAuthClientError<'SESSION_ENDED'>

/** A message to the other tabs: without a reason the stored session has changed, with one it has ended. */
type Message = { readonly sessionId: string; readonly reason?: SessionEndReason }

/** Holds the session in memory, stores it for the next page, and synchronizes it with the other tabs. */
export class SessionKeeper {
  readonly #setting: Setting
  readonly #listeners = new Set<(session: ClientSession | undefined) => void>()
  readonly #channel: Channel | undefined
  /** Time at which the access token expires, by the monotonic clock. */
  #endsAt = 0
  record: SessionRecord | undefined
  session: ClientSession | undefined

  constructor(setting: Setting) {
    this.#setting = setting
    // A browser may deliver the channel's message before the change of `localStorage` is visible.
    setting.storage.onChange?.(({ key }) => key?.startsWith(setting.name) && this.#onMessage())
    if (setting.storage.isPrivate || !browser.BroadcastChannel) return
    this.#channel = new browser.BroadcastChannel(setting.name)
    this.#channel.onmessage = ({ data }) => this.#onMessage(data as Message)
    this.#channel.unref?.()
  }

  /** Whether the token needs a refresh: it expires within 30 s, or within a fifth of its lifetime if that is less. */
  isNearEnd(): boolean {
    return this.secondsLeft() < Math.min(30, (this.record?.lifeSeconds ?? 0) / 5)
  }

  /** Returns the remaining lifetime of the token in seconds; 0 or less if it has expired. */
  secondsLeft(): number {
    return this.#endsAt - this.#setting.nowSeconds()
  }

  subscribe(listener: (session: ClientSession | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Reads the stored record of a DID; by default, of the DID that logged in last. */
  async read(did?: string): Promise<SessionRecord | undefined> {
    const { name, storage, usesCookies } = this.#setting
    const user = usesCookies ? '' : (did ?? (await storage.get(name)) ?? '')
    return parseRecord(await storage.get(this.#getRecordKey(user)))
  }

  async write(record: SessionRecord): Promise<void> {
    await this.#setting.storage.set(this.#getRecordKey(record.did), JSON.stringify(record))
  }

  /** Returns the idempotency key of an earlier refresh of these tokens whose response may be lost. */
  async findPendingKey({ did, pair }: SessionRecord): Promise<string | undefined> {
    const stored = await this.#setting.storage.get(this.#getPendingKey(did))
    return stored?.endsWith(` ${pair}`) ? stored.split(' ')[0] : undefined
  }

  /**
   * Creates and stores an idempotency key. It is not part of the record: a tab that sees the storage late would
   * overwrite newer tokens of another tab.
   */
  async createPendingKey({ did, pair }: SessionRecord): Promise<string> {
    const key = createRandomText()
    await this.#setting.storage.set(this.#getPendingKey(did), `${key} ${pair}`)
    return key
  }

  /** Makes a record the current one, in memory. */
  use(record: SessionRecord): ClientSession {
    const { did, sessionId, expiresAt, isDeviceBound, lifeSeconds, receivedAt } = record
    const { nowSeconds, wallSeconds } = this.#setting
    this.#endsAt = nowSeconds() + lifeSeconds - Math.max(0, wallSeconds() - receivedAt)
    this.record = record
    const { session } = this
    if (session?.sessionId === sessionId && session.expiresAt === expiresAt) return session
    return this.#notify({ did, sessionId, expiresAt, isDeviceBound, claims: decodeJwt(record.accessToken) })
  }

  /** Makes a received record the current one, stores it, and tells the other tabs. */
  async save(record: SessionRecord): Promise<ClientSession> {
    const session = this.use(record)
    await this.write(record)
    await this.#setting.storage.delete(this.#getPendingKey(record.did))
    this.#announce(record)
    return session
  }

  /** Saves the record of a login. Deletes the client's session of another DID. */
  async start(record: SessionRecord): Promise<ClientSession> {
    const { name, storage, usesCookies } = this.#setting
    const previous = this.record
    const session = await this.save(record)
    if (usesCookies) return session
    await storage.set(name, record.did)
    if (previous && previous.did !== record.did) {
      await storage.delete(this.#getRecordKey(previous.did))
      // Keep this last: a tab without a session reads the storage at the next message.
      this.#announce(previous, 'loggedOut')
    }
    return session
  }

  /** Deletes the session in memory and in the storage, and tells the other tabs. @returns the error to throw */
  async end(record: SessionRecord, reason: SessionEndReason, details?: ClientErrorDetails): Promise<SessionEnded> {
    const { name, storage } = this.#setting
    const error = this.drop(record, reason, details)
    await storage.delete(this.#getRecordKey(record.did))
    await storage.delete(this.#getPendingKey(record.did))
    if ((await storage.get(name)) === record.did) await storage.delete(name)
    this.#announce(record, reason)
    // The key has no use without the session, so a failure is harmless, and nothing waits for IndexedDB.
    if (this.#setting.deviceKey)
      loadDeviceKey()
        .then((device) => device.deleteKey(this.#setting, record.did))
        .catch(() => undefined)
    return error
  }

  /** Deletes a session in memory only, if it is the current one. @returns the error to throw */
  drop({ sessionId }: SessionRecord, reason: SessionEndReason, details?: ClientErrorDetails): SessionEnded {
    const userMessage = details?.userMessage ?? `Your session ${endings[reason]}. Log in again.`
    const error = new DidAuthClientError(SESSION_ENDED, { ...details, reason, userMessage })
    if (this.record?.sessionId === sessionId) {
      this.record = undefined
      this.#notify(undefined)
      queueMicrotask(() => this.#setting.onSignedOut?.(error))
    }
    return error
  }

  /** Applies a change by another tab. If the storage cannot be read now, the next request reads it again. */
  #onMessage(message?: Message): void {
    this.#follow(message).catch(() => undefined)
  }

  async #follow({ sessionId, reason }: Partial<Message> = {}): Promise<void> {
    const { record } = this
    // Drops the session without telling the other tabs again, so that they do not send messages forever.
    if (reason && record && record.sessionId === sessionId) {
      this.drop(record, reason)
      return
    }
    const stored = await this.read(record?.did)
    if (stored) this.use(stored)
  }

  /** Tells the other tabs which session changed. They read its tokens from the storage. */
  #announce({ sessionId }: SessionRecord, reason?: SessionEndReason): void {
    this.#channel?.postMessage({ sessionId, reason })
  }

  #getRecordKey(did: string): string {
    const { name, usesCookies } = this.#setting
    return usesCookies ? name : `${name} ${did}`
  }

  #getPendingKey(did: string): string {
    return `${this.#getRecordKey(did)} key`
  }

  /** Sets the public session and calls the listeners. */
  #notify<T extends ClientSession | undefined>(session: T): T {
    this.session = session
    // Listeners run in a microtask, because one that throws must not interrupt a refresh.
    for (const listener of this.#listeners) queueMicrotask(() => listener(session))
    return session
  }
}

/** Parses the body of a login or refresh. @throws DidAuthClientError PROTOCOL if it has no tokens of this protocol */
export function parseTokens(body: unknown): Omit<SessionRecord, 'receivedAt'> {
  const { accessToken, refreshToken: pair } = parseFields(body)
  if (isToken(accessToken) && isToken(pair)) {
    const { sub: did, sid: sessionId, exp: expiresAt, iat, cnf } = parseFields(decodeJwt(accessToken))
    const lifeSeconds = Number(expiresAt) - Number(iat)
    const record = { did, sessionId, expiresAt, isDeviceBound: !!cnf, lifeSeconds, accessToken, pair }
    if (isSession(record)) return record
  }
  throw new DidAuthClientError(PROTOCOL, { message: "No tokens. With cookies, mode: 'cookie'" })
}

/** Parses the body of `GET /session`; undefined for `{}`, without a session. @throws DidAuthClientError PROTOCOL */
export function parseOwnSession(body: unknown): ReceivedSession | undefined {
  const { did, sessionId, expiresAt, expiresInSeconds: lifeSeconds, isDeviceBound } = parseFields(body)
  const session = { did, sessionId, expiresAt, lifeSeconds, isDeviceBound }
  if (isSession(session)) return session
  if (body && !did) return undefined
  throw new DidAuthClientError(PROTOCOL, { message: 'No session' })
}

/** Parses a stored record; undefined for any other text. */
function parseRecord(text: string | null | undefined): SessionRecord | undefined {
  const fields = parseFields(parseJson(text))
  return isText(fields.pair) && isSession(fields) ? (fields as unknown as SessionRecord) : undefined
}

function isSession<T extends Partial<Record<keyof ReceivedSession, unknown>>>(value: T): value is T & ReceivedSession {
  const { did, sessionId, expiresAt, lifeSeconds } = value
  return isText(did) && isText(sessionId) && Number(expiresAt) >= 0 && Number(lifeSeconds) >= 0
}

function isToken(value: unknown): value is string {
  return isText(value) && value.length <= MAX_TOKEN_LENGTH
}
