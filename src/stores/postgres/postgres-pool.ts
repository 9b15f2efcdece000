import { createRequire } from 'node:module'
import { isObject } from '../../protocol/json.js'

/** A row, its values by column name. */
export type PostgresRow = Readonly<Record<string, unknown>>

/** A statement. One with a `name` is parsed once for each connection. */
export interface PostgresStatement {
  readonly name?: string
  readonly text: string
}

/** A connection, as a pool lends it: a `PoolClient` of the package pg. */
export interface PostgresClient {
  query(statement: { name?: string; text: string; values?: unknown[] }): Promise<{
    readonly rows: unknown[]
    readonly rowCount: number | null
    readonly command: string
  }>
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

/** How a pool is opened. */
export interface PoolSettings {
  poolSize: number
  /** Certificates of the authority that signed the server's, as PEM text. */
  ca: string | undefined
  /** False behind a PgBouncer, which accepts no settings with a new connection. */
  hasSettings: boolean
  timeoutSeconds: number
}

/** Connections are replaced after this time, so that a failover or a new address is noticed. */
const MAX_LIFETIME_SECONDS = 1_800

/**
 * Opens a pool by the package pg.
 *
 * @param url - with its password, which no error repeats
 * @throws TypeError when `url` is none of PostgreSQL; Error with the command to run, when pg is not installed
 */
export function openPool(url: string, { poolSize, ca, hasSettings, timeoutSeconds }: PoolSettings): PostgresPool {
  const milliseconds = timeoutSeconds * 1000
  const { Pool } = loadPg()
  return new Pool({
    connectionString: parseUrl(url, ca !== undefined),
    max: poolSize,
    connectionTimeoutMillis: milliseconds / 2,
    maxLifetimeSeconds: MAX_LIFETIME_SECONDS,
    keepAlive: true,
    pipeline: true,
    fallback_application_name: 'express-did-auth',
    ...(ca !== undefined && { ssl: { ca } }),
    ...(hasSettings && {
      statement_timeout: milliseconds * 0.75,
      lock_timeout: milliseconds / 2,
      idle_in_transaction_session_timeout: milliseconds * 2.5
    })
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

type PoolConstructor = new (options: Record<string, unknown>) => PostgresPool

function loadPg(): { Pool: PoolConstructor } {
  try {
    return createRequire(import.meta.url)('pg') as { Pool: PoolConstructor }
  } catch (cause) {
    throw new Error('express-did-auth/stores/postgres needs the package pg: npm install pg', { cause })
  }
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
