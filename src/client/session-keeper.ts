import { browser, type Channel } from './browser.js'
import { PROTOCOL, SESSION_ENDED } from './error-codes.js'
import { DidAuthClientError, type ClientErrorDetails, type SessionEndReason } from './errors.js'
import { isText, parseFields, parseJson } from './json.js'
import type { Setting } from './options.js'
import { decodeBase64url, createRandomText, decodeUtf8 } from './seal.js'

/** Longer tokens than this are not of this protocol, and are not stored. */
const MAX_TOKEN_LENGTH = 8192

/** The user and the session of the client. */
export interface ClientSession {
  readonly did: string
  readonly sessionId: string
  /** Time at which the access token expires, in whole seconds by the service's clock. The session lasts longer. */
  readonly expiresAt: number
}

/** A session as it is stored, in JSON. */
export interface SessionRecord extends ClientSession {
  /** Lifetime of the access token in seconds: `exp - iat`, which is independent of this machine's clock. */
  readonly lifeSeconds: number
  /** Time at which the token was received, by this machine's wall clock. */
  readonly receivedAt: number
  /** The refresh token. In cookie mode, where no script sees one, a random text that changes with it. */
  readonly pair: string
  /** Absent in cookie mode. */
  readonly accessToken?: string
  /** The id by which the wallet of the login is found again after a reload; absent for a wallet without one. */
  readonly walletId?: string | undefined
}

/** The answer of `GET /session`. */
export type ReceivedSession = ClientSession & Pick<SessionRecord, 'lifeSeconds'>

const endings = {
  expired: 'has expired',
  revoked: 'was ended',
  reused: 'was ended: its token was used twice',
  loggedOut: 'has ended: you logged out'
}

type SessionEnded = DidAuthClientError<'SESSION_ENDED'>

/** A message from one tab to the others: the storage has changed, or with a reason, a session has ended. */
type Message = { readonly sessionId: string; readonly reason?: SessionEndReason }

/** Keeps the session: in memory for this client, in the storage for the next page, and in step with the other tabs. */
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
    // Browsers can show a change of `localStorage` later than they deliver the message about it.
    setting.storage.onChange?.(({ key }) => key?.startsWith(setting.name) && this.#onMessage())
    if (setting.storage.isPrivate || !browser.BroadcastChannel) return
    this.#channel = new browser.BroadcastChannel(setting.name)
    this.#channel.onmessage = ({ data }) => this.#onMessage(data as Message)
    this.#channel.unref?.()
  }

  /** Whether to replace the token before it is used: it has less than 30 s, or than a fifth of its life. */
  isNearEnd(): boolean {
    return this.secondsLeft() < Math.min(30, (this.record?.lifeSeconds ?? 0) / 5)
  }

  /** Returns the remaining life of the token in seconds; 0 or less: it has expired. */
  secondsLeft(): number {
    return this.#endsAt - this.#setting.nowSeconds()
  }

  subscribe(listener: (session: ClientSession | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Reads what the storage has for a DID, or for the one that signed in last. */
  async read(did?: string): Promise<SessionRecord | undefined> {
    const { name, storage, usesCookies } = this.#setting
    const user = usesCookies ? '' : (did ?? (await storage.get(name)) ?? '')
    return parseRecord(await storage.get(this.#keyOf(user)))
  }

  async write(record: SessionRecord): Promise<void> {
    await this.#setting.storage.set(this.#keyOf(record.did), JSON.stringify(record))
  }

  /** Returns the idempotency key of a refresh of these tokens that was sent and perhaps not answered. */
  async pendingKey({ did, pair }: SessionRecord): Promise<string | undefined> {
    const kept = await this.#setting.storage.get(this.#pendingOf(did))
    return kept?.endsWith(` ${pair}`) ? kept.split(' ')[0] : undefined
  }

  /** Stores a new one. Apart, because a tab that sees the storage late would write over the newer tokens of another. */
  async newKey({ did, pair }: SessionRecord): Promise<string> {
    const key = createRandomText()
    await this.#setting.storage.set(this.#pendingOf(did), `${key} ${pair}`)
    return key
  }

  /** Uses a record from now on. */
  hold(record: SessionRecord): ClientSession {
    const { did, sessionId, expiresAt, lifeSeconds, receivedAt } = record
    const { nowSeconds, wallSeconds } = this.#setting
    this.#endsAt = nowSeconds() + lifeSeconds - Math.max(0, wallSeconds() - receivedAt)
    this.record = record
    const { session } = this
    if (session?.sessionId === sessionId && session.expiresAt === expiresAt) return session
    return this.#tell({ did, sessionId, expiresAt })
  }

  /** Uses, stores and announces a record that has just been received. */
  async save(record: SessionRecord): Promise<ClientSession> {
    const session = this.hold(record)
    await this.write(record)
    await this.#setting.storage.delete(this.#pendingOf(record.did))
    this.#announce(record)
    return session
  }

  /** Saves the record of a login. Forgets the session of another DID that this client had. */
  async start(record: SessionRecord): Promise<ClientSession> {
    const { name, storage, usesCookies } = this.#setting
    const before = this.record
    const session = await this.save(record)
    if (usesCookies) return session
    await storage.set(name, record.did)
    if (before && before.did !== record.did) {
      await storage.delete(this.#keyOf(before.did))
      // Last: a tab without a session takes the next one that it hears of.
      this.#announce(before, 'loggedOut')
    }
    return session
  }

  /** Forgets the session, here and in the storage, and tells the other tabs. @returns what to throw */
  async end(record: SessionRecord, reason: SessionEndReason, details?: ClientErrorDetails): Promise<SessionEnded> {
    const { name, storage } = this.#setting
    const error = this.drop(record, reason, details)
    await storage.delete(this.#keyOf(record.did))
    await storage.delete(this.#pendingOf(record.did))
    if ((await storage.get(name)) === record.did) await storage.delete(name)
    this.#announce(record, reason)
    return error
  }

  /** Forgets a session only in this client, unless it has another by now. @returns what to throw */
  drop({ sessionId }: SessionRecord, reason: SessionEndReason, details?: ClientErrorDetails): SessionEnded {
    const userMessage = details?.userMessage ?? `Your session ${endings[reason]}. Log in again.`
    const error = new DidAuthClientError(SESSION_ENDED, { ...details, reason, userMessage })
    if (this.record?.sessionId === sessionId) {
      this.record = undefined
      this.#tell(undefined)
      queueMicrotask(() => this.#setting.onSignedOut?.(error))
    }
    return error
  }

  /** Follows another tab. The next request looks again at a session that could not be read. */
  #onMessage(message?: Message): void {
    this.#follow(message).catch(() => undefined)
  }

  async #follow({ sessionId, reason }: Partial<Message> = {}): Promise<void> {
    const { record } = this
    // Said again by its receivers, one message would never end.
    if (reason && record && record.sessionId === sessionId) {
      this.drop(record, reason)
      return
    }
    const stored = await this.read(record?.did)
    if (stored) this.hold(stored)
  }

  /** Tells other tabs which session changed. The message has no tokens: these are in the storage. */
  #announce({ sessionId }: SessionRecord, reason?: SessionEndReason): void {
    this.#channel?.postMessage({ sessionId, reason })
  }

  #keyOf(did: string): string {
    const { name, usesCookies } = this.#setting
    return usesCookies ? name : `${name} ${did}`
  }

  #pendingOf(did: string): string {
    return `${this.#keyOf(did)} key`
  }

  #tell<T extends ClientSession | undefined>(session: T): T {
    this.session = session
    // A listener that throws must not end a refresh half way.
    for (const listener of this.#listeners) queueMicrotask(() => listener(session))
    return session
  }
}

/** @throws DidAuthClientError PROTOCOL when the body is not `{ accessToken, refreshToken }` of this protocol */
export function parseTokens(body: unknown): Omit<SessionRecord, 'receivedAt'> {
  const { accessToken, refreshToken: pair } = parseFields(body)
  if (isToken(accessToken) && isToken(pair)) {
    const { sub: did, sid: sessionId, exp: expiresAt, iat } = decodeJwt(accessToken)
    const record = { did, sessionId, expiresAt, lifeSeconds: Number(expiresAt) - Number(iat), accessToken, pair }
    if (isSession(record)) return record
  }
  throw new DidAuthClientError(PROTOCOL, { message: "No tokens. With cookies, mode: 'cookie'" })
}

/** @returns undefined for `{}`: there is no session. @throws DidAuthClientError PROTOCOL */
export function parseOwnSession(body: unknown): ReceivedSession | undefined {
  const { did, sessionId, expiresAt, expiresInSeconds: lifeSeconds } = parseFields(body)
  const session = { did, sessionId, expiresAt, lifeSeconds }
  if (isSession(session)) return session
  if (body && !did) return undefined
  throw new DidAuthClientError(PROTOCOL, { message: 'No session' })
}

/** Parses a stored record; undefined if it is not one. */
function parseRecord(text: string | null | undefined): SessionRecord | undefined {
  const found = parseFields(parseJson(text))
  return isText(found.pair) && isSession(found) ? (found as unknown as SessionRecord) : undefined
}

/** Decodes the payload of a JWT without verifying it: the service does that. */
export function decodeJwt(jwt: string): Readonly<Record<string, unknown>> {
  try {
    return parseFields(JSON.parse(decodeUtf8(decodeBase64url(jwt.split('.')[1] ?? ''))))
  } catch {
    return {}
  }
}

function isSession<T extends Partial<Record<keyof ReceivedSession, unknown>>>(value: T): value is T & ReceivedSession {
  const { did, sessionId, expiresAt, lifeSeconds } = value
  return isText(did) && isText(sessionId) && Number(expiresAt) >= 0 && Number(lifeSeconds) >= 0
}

function isToken(value: unknown): value is string {
  return isText(value) && value.length <= MAX_TOKEN_LENGTH
}
