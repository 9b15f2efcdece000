/** A custom store of sessions, in a Map. In a database, each method is one statement or transaction. */
import { canonicalDid, combineStores, memoryStore } from 'express-did-auth'
import type { SessionStore, StoredSession, StoreLifecycle } from 'express-did-auth'
import { judgeRefresh, MAX_REPLACED_TOKENS, MAX_SESSIONS_PER_DID } from 'express-did-auth/protocol'
import { storeContract } from 'express-did-auth/testing'

type Row = StoredSession & { service: string }

export function mapSessions(): SessionStore & StoreLifecycle {
  const sessions = new Map<string, Row>()
  const toKey = (session: Pick<Row, 'service' | 'sessionId'>): string => `${session.service} ${session.sessionId}`
  // Sessions are copied when stored and when returned, so that no caller can change a stored one.
  const save = (session: Row) => sessions.set(toKey(session), structuredClone(session))
  const listByUser = (service: string, user: string): Row[] =>
    [...sessions.values()].filter((row) => row.service === service && canonicalDid(row.did) === user).reverse()
  const listActive = (service: string, user: string, nowSeconds: number): Row[] =>
    listByUser(service, user).filter((session) => session.state === 'active' && nowSeconds < session.expiresAtSeconds)
  const rank = (session: Row): number => (session.state === 'active' ? 0 : 1)

  return {
    async createSession({ nowSeconds: createdAtSeconds, ...session }) {
      for (const [key, row] of sessions) if (createdAtSeconds >= row.expiresAtSeconds) sessions.delete(key)
      const userSessions = listByUser(session.service, canonicalDid(session.did)).sort((a, b) => rank(a) - rank(b))
      for (const surplus of userSessions.slice(MAX_SESSIONS_PER_DID - 1)) sessions.delete(toKey(surplus))
      save({ ...session, createdAtSeconds, rotatedAtSeconds: createdAtSeconds, state: 'active', replacedTokens: [] })
      return 0
    },
    findSession: async (service, sessionId) => structuredClone(sessions.get(toKey({ service, sessionId }))),
    async rotateRefreshToken(rotation) {
      const { nextHash: refreshTokenHash, tokenClaims, nowSeconds, nextExpiresAtSeconds: expiresAtSeconds } = rotation
      const session = sessions.get(toKey(rotation))
      const verdict = session && judgeRefresh(session, rotation)
      if (session && verdict === 'reused') save({ ...session, state: 'revoked' })
      if (session && verdict === 'rotate') {
        const newestToken = { hash: session.refreshTokenHash, replacedAtSeconds: nowSeconds }
        const replacedTokens = [newestToken, ...session.replacedTokens].slice(0, MAX_REPLACED_TOKENS)
        const tokens = { refreshTokenHash, replacedTokens, tokenClaims }
        save({ ...session, ...tokens, rotatedAtSeconds: nowSeconds, expiresAtSeconds })
      }
      return verdict ?? 'unknown'
    },
    async endSession(service, sessionId, state, nowSeconds) {
      const session = sessions.get(toKey({ service, sessionId }))
      const isActive = session?.state === 'active' && nowSeconds < session.expiresAtSeconds
      if (isActive) save({ ...session, state })
      return isActive
    },
    revokeSessions: async (service, user, nowSeconds) =>
      listActive(service, user, nowSeconds).map((session) => save({ ...session, state: 'revoked' })).length,
    listSessions: async (service, user, nowSeconds) => structuredClone(listActive(service, user, nowSeconds)),
    ping: async () => undefined,
    close: async () => undefined
  }
}

/** The test suite for stores, with the parts that this store lacks. In a test, call `it(name, run)` for each. */
export const contract = storeContract((bounds) =>
  combineStores({ sessions: mapSessions(), challengeUses: memoryStore(bounds), quotas: memoryStore(bounds) })
)
