import { browser, type Channel } from './browser.js'
import { SessionEndedError, type SessionEndReason } from './errors.js'
import { parseRecord, type SessionRecord } from './session-record.js'
import type { ClientStorage } from './storage.js'
import type { Timer } from './timing.js'
import { fieldOf } from './wallet.js'

/** Whose session the client has. */
export interface ClientSession {
  readonly did: string
  readonly sessionId: string
  /** When the access token ends, in whole seconds by the service's clock. The session lasts longer. */
  readonly expiresAt: number
}

export interface KeeperParts {
  /** `did-auth:<url>`: of the keys in the storage, the lock and the channel. */
  readonly name: string
  readonly storage: ClientStorage
  readonly timer: Timer
  /** Whether all tabs have one session, because they have one set of cookies; else each DID has a record of its own. */
  readonly usesCookies: boolean
  readonly onSignedOut: (error: SessionEndedError) => void
}

/** What one tab tells the others: the record of a DID has changed, or a session has ended. */
interface Message {
  readonly did: string
  readonly sessionId?: string
  readonly reason?: SessionEndReason
}

const REASONS: readonly unknown[] = ['expired', 'revoked', 'reused', 'loggedOut']

/** Keeps the session: in memory for this client, in the storage for the next page, and in step with the other tabs. */
export class SessionKeeper {
  readonly #parts: KeeperParts
  readonly #listeners = new Set<(session: ClientSession | undefined) => void>()
  readonly #channel: Channel | undefined
  #record: SessionRecord | undefined
  /** When the access token will have been here for its whole life, by the monotonic clock. */
  #endsAt = 0
  #session: ClientSession | undefined

  constructor(parts: KeeperParts) {
    this.#parts = parts
    if (parts.storage.isPrivate || browser.BroadcastChannel === undefined) return
    this.#channel = new browser.BroadcastChannel(parts.name)
    this.#channel.onmessage = ({ data }) => {
      // What fails here is looked at again by the next request.
      this.#hear(data).catch(() => undefined)
    }
    this.#channel.unref?.()
  }

  get record(): SessionRecord | undefined {
    return this.#record
  }

  get session(): ClientSession | undefined {
    return this.#session
  }

  /** Seconds that the access token is still good for. */
  get secondsLeft(): number {
    return this.#endsAt - this.#parts.timer.nowSeconds()
  }

  subscribe(listener: (session: ClientSession | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Reads what the storage has for a DID, or for the one that signed in last. */
  async read(did?: string): Promise<SessionRecord | undefined> {
    const { name, storage, usesCookies } = this.#parts
    if (usesCookies) return parseRecord(await storage.get(name))
    const user = did ?? (await storage.get(name))
    return user ? parseRecord(await storage.get(this.#keyOf(user))) : undefined
  }

  async write(record: SessionRecord): Promise<void> {
    await this.#parts.storage.set(this.#keyOf(record.did), JSON.stringify(record))
  }

  /** Whether a record's token, received by this tab or another, should be replaced before it is used. */
  isStale(record: SessionRecord): boolean {
    return isNearEnd(record, this.#lifeLeft(record))
  }

  /** Whether the token that this client has should be replaced before it is used. */
  get needsRefresh(): boolean {
    return this.#record !== undefined && isNearEnd(this.#record, this.secondsLeft)
  }

  /** Uses a record from now on. */
  hold(record: SessionRecord): void {
    this.#endsAt = this.#parts.timer.nowSeconds() + this.#lifeLeft(record)
    this.#record = record
    const { did, sessionId, expiresAt } = record
    this.#tell({ did, sessionId, expiresAt })
  }

  /** Uses, stores and announces a record that has just been received. */
  async save(record: SessionRecord): Promise<void> {
    this.hold(record)
    await this.write(record)
    this.#channel?.postMessage({ did: record.did } satisfies Message)
  }

  /** The same for a login. The session of another DID that this client had is forgotten. */
  async start(record: SessionRecord): Promise<void> {
    const before = this.#record
    await this.save(record)
    const { name, storage, usesCookies } = this.#parts
    if (usesCookies) return
    await storage.set(name, record.did)
    if (before !== undefined && before.did !== record.did) {
      await storage.delete(this.#keyOf(before.did))
      const { did, sessionId } = before
      this.#channel?.postMessage({ did, sessionId, reason: 'loggedOut' } satisfies Message)
    }
  }

  /** Forgets the session, here and in the storage, and tells the other tabs. */
  async end({ did, sessionId }: SessionRecord, error: SessionEndedError): Promise<void> {
    const { name, storage } = this.#parts
    this.drop(error)
    await storage.delete(this.#keyOf(did))
    if ((await storage.get(name)) === did) await storage.delete(name)
    this.#channel?.postMessage({ did, sessionId, reason: error.reason } satisfies Message)
  }

  /** Forgets the session of this client alone: it has been ended elsewhere. */
  drop(error: SessionEndedError): void {
    if (this.#record === undefined) return
    this.#record = undefined
    this.#tell(undefined)
    queueMicrotask(() => {
      this.#parts.onSignedOut(error)
    })
  }

  async #hear(data: unknown): Promise<void> {
    const { did, sessionId, reason } = parseMessage(data)
    const own = this.#record
    if (reason !== undefined) {
      // Said again by its receivers, one message would never end.
      if (own?.sessionId === sessionId) this.drop(new SessionEndedError(reason))
      return
    }
    if (!this.#parts.usesCookies && own !== undefined && own.did !== did) return
    const record = await this.read(did)
    if (record !== undefined && record.pair !== this.#record?.pair) this.hold(record)
  }

  #keyOf(did: string): string {
    const { name, usesCookies } = this.#parts
    return usesCookies ? name : `${name} ${did}`
  }

  #lifeLeft({ lifeSeconds, receivedAt }: SessionRecord): number {
    return lifeSeconds - Math.max(0, this.#parts.timer.wallSeconds() - receivedAt)
  }

  #tell(session: ClientSession | undefined): void {
    const before = this.#session
    if (before?.sessionId === session?.sessionId && before?.expiresAt === session?.expiresAt) return
    this.#session = session
    for (const listener of this.#listeners) {
      // A listener that throws must not end a refresh half way.
      queueMicrotask(() => {
        listener(session)
      })
    }
  }
}

/** Near its end means: less than 30 s are left, or less than a fifth of its life where that is shorter. */
function isNearEnd({ lifeSeconds }: SessionRecord, secondsLeft: number): boolean {
  return secondsLeft < Math.min(30, lifeSeconds / 5)
}

function parseMessage(data: unknown): Message {
  const [did, sessionId, reason] = ['did', 'sessionId', 'reason'].map((name) => fieldOf(data, name))
  return {
    did: String(did),
    sessionId: String(sessionId),
    ...(REASONS.includes(reason) && { reason: reason as SessionEndReason })
  }
}
