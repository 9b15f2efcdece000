import { isObject } from '../../protocol/json.js'
import { loadPackage } from '../load-package.js'

/** A connection, as a pool lends it: a `PoolClient` of the package pg. */
export interface PostgresClient {
  query(statement: {
    name?: string
    text: string
    values?: unknown[]
  }): Promise<{ readonly rows: unknown[]; readonly rowCount: number | null; readonly command: string }>
  /** Gives the connection back, or closes it. */
  release(isBroken?: boolean): void
  on(event: 'error', listener: (error: Error) => void): unknown
  /** The socket of a `Client` of pg, which closes it only once the server has answered. */
  readonly connection?: { readonly stream?: { destroy(): unknown } }
}

/** A pool of connections: a `Pool` of the package pg, or anything of its form. */
export interface PostgresPool {
  readonly totalCount: number
  readonly idleCount: number
  /** A `Pool` of pg says how many connections it has at most. */
  readonly options?: { readonly max?: number }
  connect(): Promise<PostgresClient>
  end(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
}

/** Connections are replaced after this time, so that a failover or a new address is noticed. */
const MAX_LIFETIME_SECONDS = 1_800

/** @throws TypeError when `url`, which no error repeats, is none of PostgreSQL; Error when pg is not installed */
export function openPool(
  url: string,
  { poolSize, ca, prepare, timeoutSeconds }: { poolSize: number; ca?: string; prepare: boolean; timeoutSeconds: number }
): PostgresPool {
  const milliseconds = timeoutSeconds * 1000
  const { Pool } = loadPackage('pg', 'postgres') as { Pool: new (options: object) => PostgresPool }
  // PgBouncer accepts no settings with a new connection.
  const settings = {
    statement_timeout: milliseconds * 0.75,
    lock_timeout: milliseconds / 2,
    idle_in_transaction_session_timeout: milliseconds * 2.5
  }
  return new Pool({
    connectionString: parseUrl(url, ca !== undefined),
    max: poolSize,
    connectionTimeoutMillis: milliseconds / 2,
    maxLifetimeSeconds: MAX_LIFETIME_SECONDS,
    keepAlive: true,
    pipeline: true,
    fallback_application_name: 'express-did-auth',
    ...(ca !== undefined && { ssl: { ca } }),
    ...(prepare && settings)
  })
}

/** @throws TypeError where a source is neither a URL nor a pool */
export function assertPool(source: unknown): asserts source is PostgresPool {
  if (isObject(source) && ['connect', 'end', 'on'].every((name) => typeof source[name] === 'function')) return
  const received = source === undefined ? 'undefined' : typeof source
  throw new TypeError(
    `express-did-auth: a PostgreSQL store needs a URL or a Pool of the package pg, and received ${received}`
  )
}

/** A URL without `sslmode` where certificates are given, because pg would forget them for it. */
function parseUrl(text: string, hasCertificates: boolean): string {
  // The error of `new URL` would repeat the text, password and all.
  if (!URL.canParse(text) || !/^postgres(ql)?:/.test(text)) {
    throw new TypeError('express-did-auth: a PostgreSQL store needs a URL such as postgres://user@host/database')
  }
  if (!hasCertificates) return text
  const url = new URL(text)
  url.searchParams.delete('sslmode')
  return url.href
}
