import type { ChallengeUseStore, QuotaStore, SessionStore, Store, StoreLifecycle } from '../ports.js'
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
    createSession: (session) => sessions.createSession(session),
    findSession: (service, sessionId) => sessions.findSession(service, sessionId),
    rotateRefreshToken: (rotation) => sessions.rotateRefreshToken(rotation),
    endSession: (service, sessionId, state, nowSeconds) => sessions.endSession(service, sessionId, state, nowSeconds),
    revokeSessions: (service, canonicalDid, nowSeconds) => sessions.revokeSessions(service, canonicalDid, nowSeconds),
    listSessions: (service, canonicalDid, nowSeconds) => sessions.listSessions(service, canonicalDid, nowSeconds),
    countChallengeUses: (key) => challengeUses.countChallengeUses(key),
    consumeChallenge: (use) => challengeUses.consumeChallenge(use),
    chargeQuota: (charge) => quotas.chargeQuota(charge),
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
