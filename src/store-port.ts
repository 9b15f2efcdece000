import type { JsonObject } from './protocol/json.js'
import type { PresentedRefreshToken, RefreshVerdict, Session, StoredSession } from './protocol/session.js'

/** The two flows that answer challenges. Each counts its own challenge uses. */
export type ChallengeFlow = 'logIn' | 'signUp'

/** A session to be created. */
export interface NewSession {
  /** The `serviceUrl`. Services that share a store never see each other's sessions. */
  service: string
  /** Random id. No other session has it. */
  sessionId: string
  /** The user's DID as received at login. */
  did: string
  /** SHA-256 of the first refresh token, base64url. */
  refreshTokenHash: string
  /** Claims for each access token of the session. Undefined: none. */
  tokenClaims: JsonObject | undefined
  /** Time of the login, in seconds since the Unix epoch. */
  nowSeconds: number
  /** Time at which the first refresh token expires, in seconds since the Unix epoch. */
  expiresAtSeconds: number
  /** Description of the client, at most 80 characters. A store that does not store it leaves it out of its sessions. */
  description?: string | undefined
  /** Time until which the active sessions are listed that the store deletes to make room. */
  listUntilSeconds?: EndRecord
}

/** The exchange of a refresh token for the next one. */
export interface Rotation extends PresentedRefreshToken {
  /** The `serviceUrl` of the session. */
  service: string
  /** Session of the refresh token. */
  sessionId: string
  /** Claims that replace those of the session. */
  tokenClaims: JsonObject | undefined
  /** Time at which the next refresh token expires, in seconds since the Unix epoch. */
  nextExpiresAtSeconds: number
  /** Time until which the session is listed, if the rotation revokes it. */
  listUntilSeconds?: EndRecord
}

/**
 * Time in seconds until which `listEndedSessions` lists a session that ends. The store records the end in the same
 * transaction, because the record outlives the session. Undefined: the end is not recorded.
 */
export type EndRecord = number | undefined

/** Record of a session that was logged out, revoked, or deleted while it was active. */
export interface EndedSession {
  /** Id of the session, `sid` of its tokens. */
  sessionId: string
  /** Time of the caller that ended the session. */
  endedAtSeconds: number
}

/** Sessions and their refresh tokens. */
export interface SessionStore {
  /**
   * Adds a session. If the user then has more than `MAX_SESSIONS_PER_DID`, the store deletes one of them: an expired
   * one, else one that was logged out or revoked, else the oldest. A full store refuses, or first deletes sessions
   * that were never refreshed, the oldest first.
   *
   * @returns number of active sessions that were deleted because the store is full
   */
  createSession(session: NewSession): Promise<number>
  /** Finds a session in any state, with the hashes of its refresh tokens. The store may delete expired sessions. */
  findSession(service: string, sessionId: string): Promise<StoredSession | undefined>
  /**
   * Applies the verdict of `judgeRefresh`: `rotate` replaces the token by the next one and sets the claims, `reused`
   * revokes the session, all others change nothing. The verdict is `unknown` if the session does not exist.
   *
   * If any number of simultaneous calls present one token with different next ones, exactly one gets `rotate`. If
   * several calls detect the same theft, the call that revokes the session gets `reused` and the others get `ended`.
   */
  rotateRefreshToken(rotation: Rotation): Promise<RefreshVerdict>
  /** Ends an active session, and stores the state. @returns whether it was active */
  endSession(
    service: string,
    sessionId: string,
    state: 'loggedOut' | 'revoked',
    nowSeconds: number,
    listUntilSeconds?: EndRecord
  ): Promise<boolean>
  /**
   * Revokes a user's active sessions. A session that is created at the same time may stay active: refuse the user's
   * logins first. After a rejection it is unknown whether the sessions were revoked: call it again.
   *
   * @returns number of revoked sessions
   */
  revokeSessions(
    service: string,
    canonicalDid: string,
    nowSeconds: number,
    listUntilSeconds?: EndRecord
  ): Promise<number>
  /** Lists a user's active sessions, the newest first. */
  listSessions(service: string, canonicalDid: string, nowSeconds: number): Promise<Session[]>
  /**
   * Lists the recorded ends at or after a time, in the order of their times. If there are more than `limit`, the list
   * ends with the second of number `limit`, and has all of that second. Optional: `endedSessions` needs it.
   */
  listEndedSessions?(service: string, sinceSeconds: number, limit: number): Promise<EndedSession[]>
}

/** Key of the challenge uses of one user in one window of one service. */
export interface ChallengeUseKey {
  /** The `serviceUrl`. */
  service: string
  /** Canonical DID. */
  did: string
  /** Number of the time window: Unix time divided by the challenge's lifetime. */
  window: number
}

/** Consumption of one signed challenge. */
export interface ChallengeUse extends ChallengeUseKey {
  /** Flow in which the challenge was signed. */
  flow: ChallengeFlow
  /** Use count from which the signed challenge was computed. */
  useCount: number
  /** Whether the same signature would be valid in the other flow as well. */
  consumesBoth: boolean
  /** Current time, in seconds since the Unix epoch. */
  nowSeconds: number
  /** End of the window. The store may delete the count `USES_OUTLIVE_WINDOW_SECONDS` later, never earlier. */
  expiresAtSeconds: number
}

/** Counts of consumed challenges. */
export interface ChallengeUseStore {
  /** Returns the number of consumed challenges of this window in each flow. */
  countChallengeUses(key: ChallengeUseKey): Promise<Record<ChallengeFlow, number>>
  /**
   * Consumes challenge number `useCount`: raises the flow's count by one if it still equals `useCount`. With
   * `consumesBoth`, the other flow's count is raised to at least the same number.
   * @returns `taken` if another request consumed it first, if the window has ended, or if the window ends no later than
   * one whose uses were already deleted, so that a clock set back makes no used challenge valid again. `full` if the
   * store has no room for another use
   */
  consumeChallenge(use: ChallengeUse): Promise<'consumed' | 'taken' | 'full'>
}

/** Charge of a quota that counts in time slots. */
export interface QuotaCharge {
  /** The `serviceUrl`. Services that share a store count separately. */
  service: string
  /** `request`: quota of an authenticated user. `anonymous`: any other; a full store deletes these first. */
  kind: 'request' | 'anonymous'
  /** HMAC of the quota's owner, so that a store contains no client address. */
  key: string
  /** Amount that is added to the count: 1 for a request, or a number of bytes. At least 1. */
  cost: number
  /** Maximum count. A charge that would exceed it is refused and adds nothing. Default: no limit. */
  limit?: number | undefined
  /** Current time, in seconds since the Unix epoch. */
  nowSeconds: number
  /** Length of a time slot in seconds. The first charge of a quota starts its slot. */
  timeSlotSeconds: number
}

/** State of a quota after a charge. */
export interface QuotaState {
  /** False when `limit` refused the charge. */
  isCharged: boolean
  /** Count of the current time slot, including this charge unless it was refused. */
  count: number
  /** Unix time in seconds at which counting restarts at 0. A refused charge stays refused until then. */
  resetsAtSeconds: number
}

/** Quotas in fixed time slots. */
export interface QuotaStore {
  /** Adds to the count of the current time slot. A slot begins with its first charge; ended slots are deleted. */
  chargeQuota(charge: QuotaCharge): Promise<QuotaState>
}

/** Methods that every part of a store has. */
export interface StoreLifecycle {
  /** Resolves if the store is available; rejects otherwise. */
  ping(): Promise<void>
  /** Closes connections and files of the store. */
  close(): Promise<void>
}

/**
 * All state of the service: sessions, challenge uses, quotas. Every method that changes something is atomic, also
 * between instances that share the store. Secrets arrive as hashes. The caller passes all times, as whole seconds since
 * the Unix epoch. A rejected promise means that the store is unavailable; the request is answered 503. Every store has
 * to pass the suite `storeContract` of `express-did-auth/testing`.
 */
export interface Store extends SessionStore, ChallengeUseStore, QuotaStore, StoreLifecycle {}

/** The verbs of each part of a store. A store that forwards calls forwards each verb of this list. */
export const storeVerbs = {
  sessions: ['createSession', 'findSession', 'rotateRefreshToken', 'endSession', 'revokeSessions', 'listSessions'],
  challengeUses: ['countChallengeUses', 'consumeChallenge'],
  quotas: ['chargeQuota']
} as const satisfies Record<string, readonly (keyof Store)[]>

/** Verbs of sessions that a store may lack. */
export const optionalVerbs = ['listEndedSessions'] as const satisfies readonly (keyof SessionStore)[]

/** Name of a part of a store. */
export type StorePart = keyof typeof storeVerbs

/** Names of the verbs of a part. */
export type StoreVerb<P extends StorePart> = (typeof storeVerbs)[P][number]
