// What each store makes public of the port that it implements.
export type {
  ChallengeFlow,
  ChallengeUse,
  ChallengeUseKey,
  ChallengeUseStore,
  NewSession,
  QuotaCharge,
  QuotaState,
  QuotaStore,
  Rotation,
  SessionStore,
  Store,
  StoreLifecycle
} from '../ports.js'
export type { JsonObject, JsonValue } from '../protocol/json.js'
export type { RefreshVerdict, ReplacedToken, Session, StoredSession } from '../protocol/session.js'
