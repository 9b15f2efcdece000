import { Buffer } from 'node:buffer'
import type { NewSession, Rotation } from '../../ports.js'
import type { JsonObject } from '../../protocol/json.js'
import { judgeRefresh, type RefreshVerdict, type Session, type StoredSession } from '../../protocol/session.js'
import type { PostgresDatabase } from './postgres-database.js'
import { storeError } from './postgres-error.js'
import { userKeyOf, type ServiceIds } from './row-keys.js'
import { dayOf, sweepDay } from './schema.js'
import { parseSession, parseStoredSession, STATES } from './session-row.js'
import { SESSION_STATEMENTS as statements } from './session-statements.js'
import type { TableSizes } from './table-sizes.js'

/** Each statement leaves the same when it is run twice, or says which of both it was. */
const REPEATABLE = { isRepeatable: true }

/** The verbs of sessions. What has to be atomic is one statement. */
export class SessionTable {
  readonly #database: PostgresDatabase
  readonly #services: ServiceIds
  readonly #sizes: TableSizes

  constructor(database: PostgresDatabase, services: ServiceIds, sizes: TableSizes) {
    this.#database = database
    this.#services = services
    this.#sizes = sizes
  }

  /** Adds a session and answers how many active ones were evicted because the store is full. */
  async create(session: NewSession): Promise<number> {
    const { sessionId, did, refreshTokenHash, tokenClaims, nowSeconds, expiresAtSeconds } = session
    const service = await this.#services.of(session.service)
    const user = userKeyOf(did)
    const ends = [nowSeconds, expiresAtSeconds, sweepDay(expiresAtSeconds)]
    const values = [sessionId, service, user, did, toJson(tokenClaims), toBytes(refreshTokenHash), ...ends]
    const { rowCount } = await this.#database.query(statements.insert, values, REPEATABLE)
    if (rowCount === 0) throw storeError(new Error('there is a session with this id'))
    // A statement of its own sees what others added meanwhile, so that the last of many that come at once trims.
    await this.#database.query(statements.trim, [user, service, nowSeconds], REPEATABLE)
    return this.#sizes.isFull('did_auth_sessions') ? this.#evict(sessionId, service, nowSeconds) : 0
  }

  async find(service: string, sessionId: string): Promise<StoredSession | undefined> {
    const values = [sessionId, await this.#services.of(service)]
    const { rows } = await this.#database.query(statements.find, values, REPEATABLE)
    return rows[0] && parseStoredSession(rows[0])
  }

  async rotate(rotation: Rotation): Promise<RefreshVerdict> {
    const { sessionId, presentedHash, nextHash, tokenClaims, nowSeconds, nextExpiresAtSeconds } = rotation
    const service = await this.#services.of(rotation.service)
    const ends = [nowSeconds, nextExpiresAtSeconds, sweepDay(nextExpiresAtSeconds), dayOf(nowSeconds)]
    const values = [sessionId, service, toBytes(presentedHash), toBytes(nextHash), toJson(tokenClaims), ...ends]
    const { rowCount, isRepeat } = await this.#database.query(statements.rotate, values, REPEATABLE)
    if (rowCount > 0) return 'rotate'
    const session = await this.find(rotation.service, sessionId)
    if (session === undefined) return 'unknown'
    const verdict = judgeRefresh(session, rotation)
    // The first attempt did it, and its answer was lost.
    if (isRepeat && verdict === 'repeated') return 'rotate'
    if (verdict === 'reused') await this.#database.query(statements.revoke, [sessionId, service], REPEATABLE)
    // The statement above decides. What it refused is not made good by a session that looks good afterwards.
    return verdict === 'rotate' ? 'replaced' : verdict
  }

  async end(service: string, sessionId: string, state: 'loggedOut' | 'revoked', nowSeconds: number): Promise<boolean> {
    const values = [sessionId, await this.#services.of(service), STATES.indexOf(state), nowSeconds]
    const { rowCount, isRepeat } = await this.#database.query(statements.end, values, REPEATABLE)
    if (rowCount > 0 || !isRepeat) return rowCount > 0
    const session = await this.find(service, sessionId)
    return session?.state === state && nowSeconds < session.expiresAtSeconds
  }

  async revokeAll(service: string, canonicalDid: string, nowSeconds: number): Promise<number> {
    const values = [userKeyOf(canonicalDid), await this.#services.of(service), nowSeconds]
    return (await this.#database.query(statements.revokeAll, values, REPEATABLE)).rowCount
  }

  async list(service: string, canonicalDid: string, nowSeconds: number): Promise<Session[]> {
    const values = [userKeyOf(canonicalDid), await this.#services.of(service), nowSeconds]
    return (await this.#database.query(statements.list, values, REPEATABLE)).rows.map(parseSession)
  }

  async #evict(sessionId: string, service: number, nowSeconds: number): Promise<number> {
    const { rowCount } = await this.#database.query(statements.evict, [sessionId, service, nowSeconds], REPEATABLE)
    return rowCount
  }
}

function toJson(claims: JsonObject | undefined): string | null {
  // In ASCII, which a database of any encoding takes.
  const escape = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return claims === undefined ? null : JSON.stringify(claims).replace(/[\u0080-\uffff]/g, escape)
}

function toBytes(hash: string): Buffer {
  return Buffer.from(hash, 'base64url')
}
