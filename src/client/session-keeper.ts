import { browser, type Channel } from './browser.js'
import { SessionEndedError, type SessionEndReason } from './errors.js'
import type { LockParts } from './lock.js'
import { parseRecord, type SessionRecord } from './session-record.js'

/** Whose session the client has. */
export interface ClientSession {
  readonly did: string
  readonly sessionId: string
  /** When the access token ends, in whole seconds by the service's clock. The session lasts longer. */
  readonly expiresAt: number
}

export interface KeeperParts extends LockParts {
  /** Monotonic: it measures how long a token has been here. */
  readonly nowSeconds: () => number
  /** Whether all tabs have one session, because they have one set of cookies; else each DID has a record of its own. */
  readonly usesCookies?: boolean
  readonly onSignedOut?: ((error: SessionEndedError) => void) | undefined
}

/** What one tab tells the others: the record of a DID has changed, or with a reason, a session has ended. */
interface Message {
  readonly did: string
  readonly sessionId: string
  readonly reason?: SessionEndReason
}

/** Keeps the session: in memory for this client, in the storage for the next page, and in step with the other tabs. */
export class SessionKeeper {
  readonly #parts: KeeperParts
  readonly #listeners = new Set<(session: ClientSession | undefined) => void>()
  readonly #channel: Channel | undefined
  /** When the access token will have been here for its whole life, by the monotonic clock. */
  #endsAt = 0
  record: SessionRecord | undefined
  session: ClientSession | undefined

  constructor(parts: KeeperParts) {
    this.#parts = parts
    if (parts.storage.isPrivate || !browser.BroadcastChannel) return
    this.#channel = new browser.BroadcastChannel(parts.name)
    this.#channel.onmessage = ({ data }) => {
      // What fails here is looked at again by the next request.
      this.#hear(parseMessage(data)).catch(() => undefined)
    }
    this.#channel.unref?.()
  }

  /** Seconds that the access token is still good for. */
  secondsLeft(): number {
    return this.#endsAt - this.#parts.nowSeconds()
  }

  subscribe(listener: (session: ClientSession | undefined) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  /** Reads what the storage has for a DID, or for the one that signed in last. */
  async read(did?: string): Promise<SessionRecord | undefined> {
    const { name, storage, usesCookies } = this.#parts
    const user = usesCookies ? '' : (did ?? (await storage.get(name)) ?? '')
    return parseRecord(await storage.get(this.#keyOf(user)))
  }

  async write(record: SessionRecord): Promise<void> {
    await this.#parts.storage.set(this.#keyOf(record.did), JSON.stringify(record))
  }

  /**
   * Whether a token should be replaced before it is used: it has less than 30 s, or than a fifth of its life where that is
   * shorter.
   */
  isNearEnd(record: SessionRecord, secondsLeft = this.#secondsLeftOf(record)): boolean {
    return secondsLeft < Math.min(30, record.lifeSeconds / 5)
  }

  /** Uses a record from now on. */
  hold(record: SessionRecord): ClientSession {
    this.#endsAt = this.#parts.nowSeconds() + this.#secondsLeftOf(record)
    this.record = record
    const { did, sessionId, expiresAt } = record
    const { session } = this
    if (session?.sessionId === sessionId && session.expiresAt === expiresAt) return session
    const changed = { did, sessionId, expiresAt }
    this.#tell(changed)
    return changed
  }

  /** Uses, stores and announces a record that has just been received. */
  async save(record: SessionRecord): Promise<ClientSession> {
    const session = this.hold(record)
    await this.write(record)
    this.#announce(record)
    return session
  }

  /** The same for a login. The session of another DID that this client had is forgotten. */
  async start(record: SessionRecord): Promise<ClientSession> {
    const { name, storage, usesCookies } = this.#parts
    const before = this.record
    if (!usesCookies) await storage.set(name, record.did)
    if (!usesCookies && before && before.did !== record.did) {
      await storage.delete(this.#keyOf(before.did))
      this.#announce(before, 'loggedOut')
    }
    return this.save(record)
  }

  /** Forgets the session, here and in the storage, and tells the other tabs. */
  async end(record: SessionRecord, error: SessionEndedError): Promise<void> {
    const { name, storage } = this.#parts
    this.drop(error)
    await storage.delete(this.#keyOf(record.did))
    if ((await storage.get(name)) === record.did) await storage.delete(name)
    this.#announce(record, error.reason)
  }

  /** Forgets the session of this client alone: it has been ended elsewhere. */
  drop(error: SessionEndedError): void {
    if (!this.record) return
    this.record = undefined
    this.#tell(undefined)
    queueMicrotask(() => this.#parts.onSignedOut?.(error))
  }

  async #hear({ did, sessionId, reason }: Message): Promise<void> {
    const own = this.record
    if (reason) {
      // Said again by its receivers, one message would never end.
      if (own?.sessionId === sessionId) this.drop(new SessionEndedError(reason))
    } else if (!own || own.did === did || this.#parts.usesCookies) {
      const record = await this.read(did)
      if (record) this.hold(record)
    }
  }

  /** Without tokens: these are in the storage. */
  #announce({ did, sessionId }: SessionRecord, reason?: SessionEndReason): void {
    this.#channel?.postMessage({ did, sessionId, reason })
  }

  #keyOf(did: string): string {
    const { name, usesCookies } = this.#parts
    return usesCookies ? name : `${name} ${did}`
  }

  #secondsLeftOf({ lifeSeconds, receivedAt }: SessionRecord): number {
    return lifeSeconds - Math.max(0, this.#parts.wallSeconds() - receivedAt)
  }

  #tell(session: ClientSession | undefined): void {
    this.session = session
    for (const listener of this.#listeners) {
      // A listener that throws must not end a refresh half way.
      queueMicrotask(() => {
        listener(session)
      })
    }
  }
}

function parseMessage(data: unknown): Message {
  return data as Message
}
