import type { JsonObject } from './protocol/json.js'
import type { PresentedRefreshToken, RefreshVerdict, Session, StoredSession } from './protocol/session.js'

/** The two flows, which count the uses of a challenge separately. */
export type ChallengeFlow = 'logIn' | 'signUp'

/** A session to be created, with the SHA-256 of its refresh token in base64url. */
export interface NewSession {
  /** The `serviceUrl`: sessions of one service are unknown to another on the same store. */
  service: string
  sessionId: string
  did: string
  refreshTokenHash: string
  tokenClaims: JsonObject | undefined
  nowSeconds: number
  expiresAtSeconds: number
}

/** The exchange of a refresh token for the next one. */
export interface Rotation extends PresentedRefreshToken {
  service: string
  sessionId: string
  /** The claims of the session from now on. */
  tokenClaims: JsonObject | undefined
  nextExpiresAtSeconds: number
}

/** Sessions and their refresh tokens. */
export interface SessionStore {
  /**
   * Adds a session. Beyond `MAX_SESSIONS_PER_DID` of a user, one of the user's is dropped: an expired one, else one
   * that ended, else the oldest. A full store first drops sessions that were never refreshed, the oldest first.
   *
   * @returns how many active sessions were dropped because the store is full
   */
  createSession(session: NewSession): Promise<number>
  /** Finds a session in any state, with the hashes of its refresh tokens. An expired one may be deleted. */
  findSession(service: string, sessionId: string): Promise<StoredSession | undefined>
  /**
   * Uses a refresh token as `judgeRefresh` says: `rotate` replaces it by the next and sets the claims, `reused` revokes
   * the session, the others change nothing. `unknown` where there is no such session. Of any number of simultaneous
   * calls with one token and different next ones, exactly one gets `rotate`. Of those that find one theft at once, the
   * call that revokes the session gets `reused`, the others get `ended`.
   */
  rotateRefreshToken(rotation: Rotation): Promise<RefreshVerdict>
  /** Ends an active session. @returns whether it was active */
  endSession(service: string, sessionId: string, state: 'loggedOut' | 'revoked', nowSeconds: number): Promise<boolean>
  /**
   * Revokes a user's active sessions. A session that is created meanwhile may stay active: refuse the user's logins
   * first. After a rejection, the sessions may be revoked or not: call it again.
   *
   * @returns how many there were
   */
  revokeSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<number>
  /** Lists a user's active sessions, the newest first. */
  listSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<Session[]>
}

/** The uses of one user in one window of one service. */
export interface ChallengeUseKey {
  service: string
  /** Canonical DID. */
  did: string
  window: number
}

export interface ChallengeUse extends ChallengeUseKey {
  flow: ChallengeFlow
  /** The count that the signed challenge was computed with. */
  useCount: number
  /** Whether the same signature would be valid in the other flow as well. */
  consumesBoth: boolean
  nowSeconds: number
  /** End of the window: the count is deleted `USES_OUTLIVE_WINDOW_SECONDS` later, never earlier. */
  expiresAtSeconds: number
}

/** Uses of challenges. */
export interface ChallengeUseStore {
  /** Returns the number of consumed challenges of this window in each flow. */
  countChallengeUses(key: ChallengeUseKey): Promise<Record<ChallengeFlow, number>>
  /**
   * Consumes challenge number `useCount`: raises the flow's count by one if it still is `useCount` (and the other
   * flow's to at least that, with `consumesBoth`).
   * @returns `taken` when another was faster, the window has ended, or it ends no later than a window whose uses were
   * deleted: a clock that is set back revives no used challenge. `full` when no further use can be stored
   */
  consumeChallenge(use: ChallengeUse): Promise<'consumed' | 'taken' | 'full'>
}

export interface QuotaCharge {
  service: string
  /** `request`: of a user who proved control. `anonymous`: of a stranger, deleted first when the store is full. */
  kind: 'request' | 'anonymous'
  /** Owner of the quota: an HMAC, so that a store holds no client address. */
  key: string
  /** Added to the count: 1 for a request, or a number of bytes. At least 1. */
  cost: number
  /** A charge that would lift the count above it is refused and adds nothing. Default: no limit. */
  limit?: number | undefined
  nowSeconds: number
  timeSlotSeconds: number
}

export interface QuotaState {
  /** False when `limit` refused the charge. */
  isCharged: boolean
  /** The count of the current time slot, this charge included unless it was refused. */
  count: number
  /** Seconds since the Unix epoch when the counter starts again. A refused charge stays refused until then. */
  resetsAtSeconds: number
}

/** Quotas in fixed time slots. */
export interface QuotaStore {
  /** Adds to a count in its time slot, which begins with the first charge and is forgotten after its end. */
  chargeQuota(charge: QuotaCharge): Promise<QuotaState>
}

/** The verbs that every part of a store has. */
export interface StoreLifecycle {
  /** Resolves when the store can work. */
  ping(): Promise<void>
  close(): Promise<void>
}

/**
 * All state: sessions, uses of challenges, quotas. Each verb that changes something is atomic, also between instances
 * that share the store. Secrets arrive as hashes. Times are the caller's: whole seconds since the Unix epoch. A
 * rejected promise means that the store is unavailable, and is answered 503. `storeContract` of
 * `express-did-auth/testing` is the suite that every store has to pass.
 */
export interface Store extends SessionStore, ChallengeUseStore, QuotaStore, StoreLifecycle {}

/** The verbs of each part of a store. A store that forwards calls forwards each verb of this list. */
export const storeVerbs = {
  sessions: ['createSession', 'findSession', 'rotateRefreshToken', 'endSession', 'revokeSessions', 'listSessions'],
  challengeUses: ['countChallengeUses', 'consumeChallenge'],
  quotas: ['chargeQuota']
} as const satisfies Record<string, readonly (keyof Store)[]>

/** Name of a part of a store. */
export type StorePart = keyof typeof storeVerbs

/** Names of the verbs of a part. */
export type StoreVerb<P extends StorePart> = (typeof storeVerbs)[P][number]
