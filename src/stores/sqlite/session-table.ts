import type { NewSession, Rotation } from '../../ports.js'
import { canonicalDid } from '../../protocol/did.js'
import type { JsonObject } from '../../protocol/json.js'
import { judgeRefresh, MAX_SESSIONS_PER_DID, type RefreshVerdict, type Session } from '../../protocol/session.js'
import { addReplacedToken, parseReplacedTokens } from '../replaced-tokens.js'
import { dayOf, sweepDay } from './schema.js'
import { SessionEviction } from './session-eviction.js'
import {
  STORED_COLUMNS,
  SESSION_COLUMNS,
  parseStoredRow,
  type SessionRow,
  type StoredSessionRow
} from './session-row.js'
import type { SqlConnection } from './sqlite-engine.js'

const OF_SESSION = 'WHERE session_id = ? AND service = ?'
const OF_USER = 'WHERE canonical_did = ? AND service = ?'

/** The verbs of sessions. Each that writes expects the caller's transaction. */
export class SessionTable {
  readonly #statements: ReturnType<typeof prepareStatements>
  readonly #eviction: SessionEviction

  constructor(connection: SqlConnection, maxSessions: number) {
    this.#statements = prepareStatements(connection)
    this.#eviction = new SessionEviction(connection, maxSessions)
  }

  /** Adds a session and answers how many active ones were evicted because the store is full. */
  create(session: NewSession): number {
    const { service, sessionId, did, refreshTokenHash, tokenClaims, nowSeconds, expiresAtSeconds } = session
    const user = canonicalDid(did)
    this.#trimSessionsOf(user, service, nowSeconds)
    const evicted = this.#eviction.makeSpace(nowSeconds)
    this.#statements.insert.run(
      service,
      sessionId,
      user,
      did,
      toJson(tokenClaims),
      refreshTokenHash,
      nowSeconds,
      nowSeconds,
      expiresAtSeconds,
      sweepDay(expiresAtSeconds)
    )
    this.#eviction.count.add(1)
    return evicted
  }

  find(service: string, sessionId: string): StoredSessionRow | undefined {
    const row = this.#statements.find.get(sessionId, service)
    return row && parseStoredRow(row)
  }

  rotate({ service, sessionId, tokenClaims, nowSeconds, nextExpiresAtSeconds, ...tokens }: Rotation): RefreshVerdict {
    const row = this.#statements.findForRotation.get(sessionId, service)
    if (row === undefined) return 'unknown'
    const replaced = row.replaced as Uint8Array
    const session = {
      state: row.state as Session['state'],
      expiresAtSeconds: Number(row.expires_at),
      refreshTokenHash: String(row.refresh_token_hash),
      get replacedTokens() {
        return parseReplacedTokens(replaced)
      }
    }
    const verdict = judgeRefresh(session, { ...tokens, nowSeconds })
    if (verdict === 'reused') this.#statements.revoke.run(Number(row.id))
    if (verdict !== 'rotate') return verdict
    const packed = addReplacedToken(replaced, session.refreshTokenHash, nowSeconds)
    const values = [tokens.nextHash, packed, toJson(tokenClaims), nowSeconds, nextExpiresAtSeconds] as const
    const [day, today] = [sweepDay(nextExpiresAtSeconds), dayOf(nowSeconds)]
    const isSameDay = row.sweep_day === day && row.refreshed_day === today
    // An index is written again when a column of its is set, even to what it was.
    if (isSameDay) this.#statements.rotate.run(...values, Number(row.id))
    else this.#statements.rotateToDay.run(...values, day, today, Number(row.id))
    return verdict
  }

  end(service: string, sessionId: string, state: 'loggedOut' | 'revoked', nowSeconds: number): boolean {
    return this.#statements.end.run(state, sessionId, service, nowSeconds).changes > 0
  }

  revokeAll(service: string, user: string, nowSeconds: number): number {
    return Number(this.#statements.revokeAll.run(user, service, nowSeconds).changes)
  }

  list(service: string, user: string, nowSeconds: number): SessionRow[] {
    return this.#statements.list.all(user, service, nowSeconds) as unknown as SessionRow[]
  }

  /** Deletes some of the expired sessions. True when there may be more. */
  sweep(nowSeconds: number): boolean {
    return this.#eviction.sweep(nowSeconds)
  }

  /** Forgets what it knew of the table: a transaction was rolled back, or other processes may have written. */
  reset(): void {
    this.#eviction.reset()
  }

  /** A user keeps few sessions: what is over anyway is dropped first, then the oldest. */
  #trimSessionsOf(user: string, service: string, nowSeconds: number): void {
    const count = Number(this.#statements.countOfUser.get(user, service)?.number)
    if (count < MAX_SESSIONS_PER_DID) return
    const victims = this.#statements.firstOfUser.all(user, service, nowSeconds, count - MAX_SESSIONS_PER_DID + 1)
    for (const { id } of victims) this.#eviction.delete(Number(id))
  }
}

function toJson(claims: JsonObject | undefined): string | null {
  return claims === undefined ? null : JSON.stringify(claims)
}

function prepareStatements(connection: SqlConnection) {
  const [table, active] = ['did_auth_sessions', "AND state = 'active' AND expires_at > ?"]
  const rotated = 'refresh_token_hash = ?, replaced = ?, token_claims = ?, rotated_at = ?, expires_at = ?'
  return {
    insert: connection.prepare(`INSERT INTO ${table}
      (service, session_id, canonical_did, did, state, token_claims, refresh_token_hash, replaced, created_at, rotated_at,
        expires_at, sweep_day)
      VALUES (?, ?, ?, ?, 'active', ?, ?, x'', ?, ?, ?, ?)`),
    find: connection.prepare(`SELECT ${STORED_COLUMNS} FROM ${table} ${OF_SESSION}`),
    findForRotation: connection.prepare(`SELECT id, state, refresh_token_hash, replaced, expires_at, sweep_day,
      refreshed_day FROM ${table} ${OF_SESSION}`),
    rotate: connection.prepare(`UPDATE ${table} SET ${rotated} WHERE id = ?`),
    rotateToDay: connection.prepare(`UPDATE ${table} SET ${rotated}, sweep_day = ?, refreshed_day = ? WHERE id = ?`),
    revoke: connection.prepare(`UPDATE ${table} SET state = 'revoked' WHERE id = ?`),
    end: connection.prepare(`UPDATE ${table} SET state = ? ${OF_SESSION} ${active}`),
    revokeAll: connection.prepare(`UPDATE ${table} SET state = 'revoked' ${OF_USER} ${active}`),
    list: connection.prepare(`SELECT ${SESSION_COLUMNS} FROM ${table} ${OF_USER} ${active} ORDER BY id DESC`),
    countOfUser: connection.prepare(`SELECT COUNT(*) AS number FROM ${table} ${OF_USER}`),
    firstOfUser: connection.prepare(`SELECT id FROM ${table} ${OF_USER}
      ORDER BY CASE WHEN expires_at <= ? THEN 0 WHEN state <> 'active' THEN 1 ELSE 2 END, id LIMIT ?`)
  }
}
