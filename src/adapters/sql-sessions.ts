import type { NewSession, Rotation } from '../ports.js'
import { canonicalDid } from '../protocol/did.js'
import type { JsonObject } from '../protocol/json.js'
import {
  judgeRefresh,
  MAX_REPLACED_TOKENS,
  MAX_SESSIONS_PER_DID,
  type RefreshVerdict,
  type Session
} from '../protocol/session.js'
import { sqlText } from './sql-text.js'
import type { SqlRow, SqlVerb } from './sql-verb.js'

/** Adds a session, and makes room for it. */
export function* createSession(session: NewSession, maxSessions: number): SqlVerb<void> {
  const { service, sessionId, did, refreshTokenHash, tokenClaims, nowSeconds, expiresAtSeconds } = session
  const user = canonicalDid(did)
  const beyond = yield [sqlText.sessionsBeyond, user, service, nowSeconds, MAX_SESSIONS_PER_DID - 1]
  const expired = yield [sqlText.expiredSessions, nowSeconds]
  let added = 1 - (yield* deleteSessions([...beyond, ...expired]))
  const claims = tokenClaims === undefined ? null : JSON.stringify(tokenClaims)
  yield [sqlText.insertSession, service, sessionId, user, did, claims, refreshTokenHash, nowSeconds, expiresAtSeconds]
  const [total] = yield [sqlText.addRows, added, 'sessions']
  if (Number(total?.number) <= maxSessions) return
  added = -(yield* deleteSessions(yield [sqlText.firstSessionToEnd]))
  yield [sqlText.addRows, added, 'sessions']
}

/** The session of a refresh token, current or replaced. */
export function* findSession(service: string, hash: string): SqlVerb<Session | undefined> {
  const row = yield* sessionOfToken(service, hash, '')
  return row && parseSession(row)
}

/** Uses a refresh token as `judgeRefresh` says. */
export function* rotateRefreshToken(rotation: Rotation, forUpdate: string): SqlVerb<RefreshVerdict | 'unknown'> {
  const { service, presentedHash, nextHash, nowSeconds, nextExpiresAtSeconds, graceSeconds } = rotation
  const row = yield* sessionOfToken(service, presentedHash, forUpdate)
  if (row === undefined) return 'unknown'
  const replacedAtSeconds = row.replaced_at === null ? undefined : Number(row.replaced_at)
  const verdict = judgeRefresh({ ...parseSession(row), replacedAtSeconds }, nowSeconds, graceSeconds)
  const id = Number(row.id)
  if (verdict === 'reused') yield [sqlText.revokeSession, id]
  if (verdict !== 'rotate') return verdict
  const number = Number(row.rotations)
  yield [sqlText.rotateToken, id, nextHash, nowSeconds, nextExpiresAtSeconds]
  yield [sqlText.insertReplacedToken, presentedHash, service, id, number, nowSeconds]
  if (number >= MAX_REPLACED_TOKENS) yield [sqlText.forgetReplacedTokens, id, number - MAX_REPLACED_TOKENS]
  return verdict
}

/** Ends an active session. */
export function* endSession(
  service: string,
  sessionId: string,
  state: 'loggedOut' | 'revoked',
  nowSeconds: number
): SqlVerb<boolean> {
  const ended = yield [sqlText.endSession, sessionId, service, state, nowSeconds]
  return ended.length > 0
}

/** Revokes a user's active sessions. */
export function* revokeSessions(service: string, user: string, nowSeconds: number): SqlVerb<number> {
  const revoked = yield [sqlText.revokeSessions, user, service, nowSeconds]
  return revoked.length
}

/** A user's active sessions, the newest first. */
export function* listSessions(service: string, user: string, nowSeconds: number): SqlVerb<Session[]> {
  const rows = yield [sqlText.listSessions, user, service, nowSeconds]
  return Array.from(rows, parseSession)
}

function* sessionOfToken(service: string, hash: string, forUpdate: string): SqlVerb<SqlRow | undefined> {
  const [current] = yield [sqlText.sessionOfToken + forUpdate, hash, service]
  if (current !== undefined) return current
  const [replaced] = yield [sqlText.sessionOfReplacedToken + forUpdate, hash, service]
  return replaced
}

/** Deletes sessions with all that belongs to them, and answers how many there were. */
function* deleteSessions(rows: readonly SqlRow[]): SqlVerb<number> {
  let count = 0
  for (const { id } of rows) {
    yield [sqlText.deleteReplacedTokens, Number(id)]
    // Where a row was listed twice, or another instance was faster, there is nothing left.
    count += (yield [sqlText.deleteSession, Number(id)]).length
  }
  return count
}

function parseSession(row: SqlRow): Session {
  const { token_claims: claims } = row
  return {
    sessionId: row.session_id as string,
    did: row.did as string,
    state: row.state as Session['state'],
    tokenClaims: typeof claims === 'string' ? (JSON.parse(claims) as JsonObject) : undefined,
    createdAtSeconds: Number(row.created_at),
    rotatedAtSeconds: Number(row.rotated_at),
    expiresAtSeconds: Number(row.expires_at)
  }
}
