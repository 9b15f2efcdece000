import { isObject } from '../../protocol/json.js'
import { computeDatabaseLimits } from '../../time-limits.js'
import { loadPackage } from '../load-package.js'
import { parsePostgresUrl } from './postgres-url.js'

/** A connection that a pool lends: a `PoolClient` of the package pg. */
export interface PostgresClient {
  /** Runs a statement; one with a `name` is prepared once per connection. */
  query(statement: {
    name?: string
    text: string
    values?: unknown[]
  }): Promise<{ readonly rows: unknown[]; readonly rowCount: number | null; readonly command: string }>
  /** Returns the connection to the pool, or closes it if it is broken. */
  release(isBroken?: boolean): void
  /** Adds a listener for the failure of an idle connection. */
  on(event: 'error', listener: (error: Error) => void): unknown
  /** Socket of a `Client` of pg. The client itself closes it only after the server has answered. */
  readonly connection?: { readonly stream?: { destroy(): unknown } }
}

/** A `Pool` of the package pg, or an object with the same members. */
export interface PostgresPool {
  /** Number of open connections, lent or idle. */
  readonly totalCount: number
  /** Number of open connections that nobody uses. */
  readonly idleCount: number
  /** Options of a `Pool` of pg. `max`: maximum number of connections. */
  readonly options?: { readonly max?: number }
  /** Lends a connection, and opens one if none is idle. */
  connect(): Promise<PostgresClient>
  /** Closes all connections after they are returned. */
  end(): Promise<void>
  /** Adds a listener for the failure of an idle connection. */
  on(event: 'error', listener: (error: Error) => void): unknown
}

/** Time after which a connection is replaced, so that a failover or a new address is noticed. */
const MAX_LIFETIME_SECONDS = 1_800

/** Opens a pool of pg. @throws TypeError for an invalid URL, without repeating the URL; Error if pg is not installed */
export function openPool(
  url: string,
  { poolSize, ca, prepare, timeoutSeconds }: { poolSize: number; ca?: string; prepare: boolean; timeoutSeconds: number }
): PostgresPool {
  const limits = computeDatabaseLimits(timeoutSeconds * 1000)
  const { Pool } = loadPackage('pg', 'postgres') as { Pool: new (options: object) => PostgresPool }
  // PgBouncer does not accept settings with a new connection.
  const settings = {
    statement_timeout: limits.databaseStatement,
    lock_timeout: limits.databaseLock,
    idle_in_transaction_session_timeout: limits.databaseIdleTransaction
  }
  return new Pool({
    ...parsePostgresUrl(url, ca),
    max: poolSize,
    connectionTimeoutMillis: limits.databaseConnect,
    maxLifetimeSeconds: MAX_LIFETIME_SECONDS,
    keepAlive: true,
    pipeline: true,
    fallback_application_name: 'express-did-auth',
    ...(prepare && settings)
  })
}

/** @throws TypeError if a source is neither a URL nor a pool */
export function assertPool(source: unknown): asserts source is PostgresPool {
  if (isObject(source) && ['connect', 'end', 'on'].every((name) => typeof source[name] === 'function')) return
  const received = source === undefined ? 'undefined' : typeof source
  throw new TypeError(
    `express-did-auth: a PostgreSQL store needs a URL or a Pool of the package pg, but received ${received}`
  )
}
