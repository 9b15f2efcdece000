import type { Store } from '../ports.js'
import { combineStores } from './combine.js'

/**
 * Returns a store that also records the end of each session, for the list of ended sessions. The store records it in
 * the transaction that ends the session.
 *
 * @param listedSeconds - time after its end for which a session is listed
 */
export function recordEnds(store: Store, listedSeconds: number): Store {
  return {
    ...combineStores({ sessions: store, challengeUses: store, quotas: store }),
    createSession: (session) =>
      store.createSession({ ...session, listUntilSeconds: session.nowSeconds + listedSeconds }),
    rotateRefreshToken: (rotation) =>
      store.rotateRefreshToken({ ...rotation, listUntilSeconds: rotation.nowSeconds + listedSeconds }),
    endSession: (service, sessionId, state, nowSeconds) =>
      store.endSession(service, sessionId, state, nowSeconds, nowSeconds + listedSeconds),
    revokeSessions: (service, canonicalDid, nowSeconds) =>
      store.revokeSessions(service, canonicalDid, nowSeconds, nowSeconds + listedSeconds)
  }
}
