/** A store of your own, here of sessions on a Map. In a database each verb is one statement or transaction. */
import { canonicalDid, combineStores, memoryStore } from 'express-did-auth'
import type { SessionStore, StoredSession, StoreLifecycle } from 'express-did-auth'
import { judgeRefresh, MAX_REPLACED_TOKENS, MAX_SESSIONS_PER_DID } from 'express-did-auth/protocol'
import { storeContract } from 'express-did-auth/testing'

type Kept = StoredSession & { service: string }

export function mapSessions(): SessionStore & StoreLifecycle {
  const sessions = new Map<string, Kept>()
  const keyOf = (session: Pick<Kept, 'service' | 'sessionId'>): string => `${session.service} ${session.sessionId}`
  // Copied when stored and when answered, so that no caller can change a stored session.
  const keep = (session: Kept) => sessions.set(keyOf(session), structuredClone(session))
  const ofUser = (service: string, user: string): Kept[] =>
    [...sessions.values()].filter((one) => one.service === service && canonicalDid(one.did) === user).reverse()
  const active = (service: string, user: string, nowSeconds: number): Kept[] =>
    ofUser(service, user).filter((one) => one.state === 'active' && nowSeconds < one.expiresAtSeconds)
  const rank = (session: Kept): number => (session.state === 'active' ? 0 : 1)

  return {
    async createSession({ nowSeconds, ...session }) {
      for (const [key, one] of sessions) if (nowSeconds >= one.expiresAtSeconds) sessions.delete(key)
      const own = ofUser(session.service, canonicalDid(session.did)).sort((a, b) => rank(a) - rank(b))
      for (const surplus of own.slice(MAX_SESSIONS_PER_DID - 1)) sessions.delete(keyOf(surplus))
      const times = { createdAtSeconds: nowSeconds, rotatedAtSeconds: nowSeconds }
      keep({ ...session, ...times, state: 'active', replacedTokens: [] })
      return 0
    },
    findSession: async (service, sessionId) => structuredClone(sessions.get(keyOf({ service, sessionId }))),
    async rotateRefreshToken(rotation) {
      const { nextHash: refreshTokenHash, tokenClaims, nowSeconds, nextExpiresAtSeconds: expiresAtSeconds } = rotation
      const one = sessions.get(keyOf(rotation))
      const verdict = one && judgeRefresh(one, rotation)
      if (one && verdict === 'reused') keep({ ...one, state: 'revoked' })
      if (one && verdict === 'rotate') {
        const newest = { hash: one.refreshTokenHash, replacedAtSeconds: nowSeconds }
        const replacedTokens = [newest, ...one.replacedTokens].slice(0, MAX_REPLACED_TOKENS)
        keep({ ...one, refreshTokenHash, rotatedAtSeconds: nowSeconds, expiresAtSeconds, tokenClaims, replacedTokens })
      }
      return verdict ?? 'unknown'
    },
    async endSession(service, sessionId, state, nowSeconds) {
      const one = sessions.get(keyOf({ service, sessionId }))
      const isActive = one?.state === 'active' && nowSeconds < one.expiresAtSeconds
      if (isActive) keep({ ...one, state })
      return isActive
    },
    revokeSessions: async (service, user, nowSeconds) =>
      active(service, user, nowSeconds).map((one) => keep({ ...one, state: 'revoked' })).length,
    listSessions: async (service, user, nowSeconds) => structuredClone(active(service, user, nowSeconds)),
    ping: async () => undefined,
    close: async () => undefined
  }
}

/** The suite that every store has to pass, with the parts that this one lacks. In a test: `it(name, run)` for each. */
export const contract = storeContract((bounds) =>
  combineStores({ sessions: mapSessions(), challengeUses: memoryStore(bounds), quotas: memoryStore(bounds) })
)
