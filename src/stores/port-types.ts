// What each store makes public of the port that it implements.
export type * from '../store-port.js'
export type { JsonObject, JsonValue } from '../protocol/json.js'
export type { PresentedRefreshToken, RefreshVerdict, ReplacedToken } from '../protocol/session.js'
export type { Session, StoredSession } from '../protocol/session.js'
