// Types of the store port. Each store re-exports them.
export type * from '../store-port.js'
export type { JsonObject, JsonValue } from '../protocol/json.js'
export type { PresentedRefreshToken, RefreshVerdict, ReplacedToken } from '../protocol/session.js'
export type { Session, StoredSession } from '../protocol/session.js'
