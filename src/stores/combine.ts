import { storeVerbs, type ChallengeUseStore, type QuotaStore, type SessionStore } from '../ports.js'
import type { Store, StoreLifecycle, StorePart, StoreVerb } from '../ports.js'
import { memoryStores } from './memory/index.js'

/** Parts of a store. Each may use a different engine, and one object may serve as several parts. */
export interface StoreParts {
  /** Sessions and replaced refresh tokens. */
  sessions: SessionStore & StoreLifecycle
  /** Counts of used challenges and nonces. */
  challengeUses: ChallengeUseStore & StoreLifecycle
  /** Counts of requests. */
  quotas: QuotaStore & StoreLifecycle
}

/**
 * Combines parts into one store, such as a durable and a fast one. `ping` pings all parts; `close` closes each once.
 *
 * @example
 * const durable = sqliteStore('./auth.db')
 * const store = combineStores({ sessions: durable, challengeUses: durable, quotas: memoryStore() })
 */
export function combineStores({ sessions, challengeUses, quotas }: StoreParts): Store {
  const parts = [...new Set<StoreLifecycle>([sessions, challengeUses, quotas])]
  const combined: Store = {
    ...forwardVerbs('sessions', sessions),
    ...(sessions.listEndedSessions && { listEndedSessions: sessions.listEndedSessions.bind(sessions) }),
    ...forwardVerbs('challengeUses', challengeUses),
    ...forwardVerbs('quotas', quotas),
    async ping() {
      await Promise.all(parts.map((part) => part.ping()))
    },
    async close() {
      await Promise.all(parts.map((part) => part.close()))
    }
  }
  if (memoryStores.has(sessions)) memoryStores.add(combined)
  return combined
}

/** Creates the verbs of a part of a store, which call a store. A new verb of the port then needs no line here. */
function forwardVerbs<P extends StorePart>(part: P, target: Pick<Store, StoreVerb<P>>): Pick<Store, StoreVerb<P>> {
  const names: readonly StoreVerb<P>[] = storeVerbs[part]
  const methods = target as Record<StoreVerb<P>, (...args: unknown[]) => unknown>
  const verbs = names.map((verb) => [verb, (...args: unknown[]) => methods[verb](...args)])
  // The object has a function for each name, with its own arguments and result.
  return Object.fromEntries(verbs) as Pick<Store, StoreVerb<P>>
}
