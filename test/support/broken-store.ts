import type { NewSession, Rotation, Store } from '../../src/ports.js'
import type { StoredSession } from '../../src/protocol/session.js'
import { combineStores } from '../../src/stores/combine.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import type { StoreBounds } from '../../src/testing/index.js'

/** A store with one fault, and how the contract tells of it. */
export interface BrokenStore {
  /** What is wrong with it. */
  fault: string
  /** A case that has to fail. */
  fails: string
  /** The promise that this case says is broken. */
  says: string
  /** Verbs in place of those of a good store. */
  verbs: (store: Store, bounds: StoreBounds) => Partial<Store>
}

/** A memory store with some verbs replaced. */
export function makeBroken({ verbs }: Pick<BrokenStore, 'verbs'>, bounds: StoreBounds): Store {
  const store = memoryStore(bounds)
  return { ...combineStores({ sessions: store, challengeUses: store, quotas: store }), ...verbs(store, bounds) }
}

/** A moment in which other calls go on, as between a read and a write. */
export async function aMoment(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve))
}

/** Sessions without any bound, of which some may be hidden: deletion is no verb of the port. */
export class HideableSessions {
  // Each session gets a user of its own there, so that the bound of 50 does not count.
  readonly #store = memoryStore()
  /** All that were created and not hidden since, the oldest first. */
  sessions: NewSession[] = []

  ofUser({ service, did }: Pick<NewSession, 'service' | 'did'>): NewSession[] {
    return this.sessions.filter((one) => one.service === service && one.did === did)
  }

  async create(session: NewSession): Promise<void> {
    this.sessions.push(session)
    await this.#store.createSession({ ...session, did: `${session.did}#${session.sessionId}` })
  }

  hide(session: NewSession | undefined): void {
    this.sessions = this.sessions.filter((one) => one !== session)
  }

  /** The other verbs that the cases on bounds call. */
  verbs(): Pick<Store, 'findSession' | 'rotateRefreshToken' | 'listSessions'> {
    return {
      findSession: (service, sessionId) => this.#find(service, sessionId),
      rotateRefreshToken: (rotation) => this.#store.rotateRefreshToken(rotation),
      listSessions: async (service, did) => {
        const own = this.ofUser({ service, did }).reverse()
        const found = await Promise.all(own.map(({ sessionId }) => this.#find(service, sessionId)))
        return found.filter((one) => one !== undefined)
      }
    }
  }

  async #find(service: string, sessionId: string): Promise<StoredSession | undefined> {
    const isHidden = !this.sessions.some((one) => one.service === service && one.sessionId === sessionId)
    return isHidden ? undefined : this.#store.findSession(service, sessionId)
  }
}

/** Whether the token presented is one that the session remembers as replaced. */
export function presentsReplaced(session: StoredSession, { presentedHash }: Rotation): boolean {
  return session.replacedTokens.some(({ hash }) => presentedHash.startsWith(hash))
}
