import type { ChallengeUseStore, QuotaStore, SessionStore, Store, StoreLifecycle } from '../ports.js'
import { callVerb, forwardVerbs } from './forward-verbs.js'
import { memoryStores } from './memory/index.js'

/** Parts of a store. Each may use a different engine, and one object may serve as several parts. */
export interface StoreParts {
  sessions: SessionStore & StoreLifecycle
  challengeUses: ChallengeUseStore & StoreLifecycle
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
    ...forwardVerbs('sessions', (verb, args) => callVerb(sessions, verb, args)),
    ...forwardVerbs('challengeUses', (verb, args) => callVerb(challengeUses, verb, args)),
    ...forwardVerbs('quotas', (verb, args) => callVerb(quotas, verb, args)),
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
