import { randomBytes } from 'node:crypto'
import type { ChallengeFlow, ChallengeUse, ChallengeUseKey } from '../../ports.js'
import type { PostgresDatabase } from './postgres-database.js'
import type { PostgresStatement } from './postgres-pool.js'
import { userKeyOf, type ServiceIds } from './row-keys.js'
import type { TableSizes } from './table-sizes.js'

const TABLE = 'did_auth_challenge_uses'
const OF_USE = 'user_key = $1 AND challenge_window = $2 AND service = $3'
const IS_REMEMBERED = "$7 > (SELECT number FROM did_auth_numbers WHERE name = 'usesForgottenUntil')"
const COLUMNS: Readonly<Record<ChallengeFlow, string>> = { logIn: 'log_in', signUp: 'sign_up' }

const FIND = { name: 'did_auth_find_use', text: `SELECT log_in, sign_up FROM ${TABLE} WHERE ${OF_USE}` }
const FIRST = { logIn: firstUse('logIn'), signUp: firstUse('signUp') }
const NEXT = { logIn: nextUse('logIn'), signUp: nextUse('signUp') }

const REPEATABLE = { isRepeatable: true }
const USE_BYTES = 12

/** The verbs of uses of challenges. Each use has a random name, by which a repeated statement knows what it did itself. */
export class ChallengeUseTable {
  readonly #database: PostgresDatabase
  readonly #services: ServiceIds
  readonly #sizes: TableSizes

  constructor(database: PostgresDatabase, services: ServiceIds, sizes: TableSizes) {
    this.#database = database
    this.#services = services
    this.#sizes = sizes
  }

  async countUses(key: ChallengeUseKey): Promise<Record<ChallengeFlow, number>> {
    const { rows } = await this.#database.query(FIND, await this.#keyOf(key), REPEATABLE)
    return { logIn: Number(rows[0]?.log_in ?? 0), signUp: Number(rows[0]?.sign_up ?? 0) }
  }

  async consume(use: ChallengeUse): Promise<'consumed' | 'taken' | 'full'> {
    const { flow, useCount, consumesBoth, nowSeconds, expiresAtSeconds } = use
    if (nowSeconds >= expiresAtSeconds) return 'taken'
    const key = await this.#keyOf(use)
    const isFull = useCount === 0 && this.#sizes.isFull(TABLE)
    if (isFull && (await this.#database.query(FIND, key, REPEATABLE)).rowCount === 0) return 'full'
    const raised = (column: ChallengeFlow): number => (column === flow || consumesBoth ? useCount + 1 : 0)
    const counts = [raised('logIn'), raised('signUp')]
    const values = [...key, ...counts, randomBytes(USE_BYTES), expiresAtSeconds]
    const statement = useCount === 0 ? FIRST[flow] : NEXT[flow]
    const { rowCount } = await this.#database.query(statement, values, REPEATABLE)
    return rowCount > 0 ? 'consumed' : 'taken'
  }

  async #keyOf({ service, did, window }: ChallengeUseKey): Promise<unknown[]> {
    return [userKeyOf(did), window, await this.#services.of(service)]
  }
}

/** Adds a row, or finds one in which only the other flow was used. */
function firstUse(flow: ChallengeFlow): PostgresStatement {
  const text = `INSERT INTO ${TABLE} AS known (user_key, challenge_window, service, log_in, sign_up, last_use, expires_at)
    SELECT $1, $2, $3, $4::int, $5::int, $6, $7::bigint WHERE ${IS_REMEMBERED}
    ON CONFLICT (user_key, challenge_window, service) DO UPDATE SET log_in = greatest(known.log_in, excluded.log_in),
      sign_up = greatest(known.sign_up, excluded.sign_up), last_use = excluded.last_use
    WHERE known.${COLUMNS[flow]} = 0 OR known.last_use = excluded.last_use`
  return { name: `did_auth_first_${COLUMNS[flow]}`, text }
}

function nextUse(flow: ChallengeFlow): PostgresStatement {
  // The count that it raises is one less than what it becomes.
  const text = `UPDATE ${TABLE} SET log_in = greatest(log_in, $4), sign_up = greatest(sign_up, $5), last_use = $6
    WHERE ${OF_USE} AND (${COLUMNS[flow]} = ${flow === 'logIn' ? '$4' : '$5'} - 1 OR last_use = $6)
      AND ${IS_REMEMBERED}`
  return { name: `did_auth_next_${COLUMNS[flow]}`, text }
}
