import { DidAuthError } from '../errors.js'
import type { DidAuthConfig } from './options.js'
import { correctOrigins, describe, isAnyOrigin, isOrigin } from './rules.js'
import { parseHttpUrl } from '../protocol/parse-url.js'

/** Headers that requests to the login and to guarded routes may have. */
export const CORS_ALLOWED_HEADERS = ['Authorization', 'Content-Type', 'DID-Approval', 'DPoP', 'Idempotency-Key']

/** Headers of answers that clients read. */
export const CORS_EXPOSED_HEADERS = [
  'Challenge-Expires-In',
  'DPoP-Nonce',
  'Idempotent-Replayed',
  'Retry-After',
  'WWW-Authenticate'
]

/** Time for which browsers cache the answer to a preflight, in seconds. */
export const CORS_MAX_AGE_SECONDS = 600

/** Settings from which {@link corsOptions} computes its result. */
export type CorsSettings = Readonly<Pick<DidAuthConfig, 'serviceUrl' | 'trustedOrigins' | 'useCookies'>>

/** Options of the npm package `cors`. */
export interface CorsOptions {
  /** The origin of `serviceUrl`, `trustedOrigins`, and further origins. */
  origin: string[]
  /** Whether requests may have cookies: the option `useCookies`. */
  credentials: boolean
  /** Methods that pages of other origins may use. */
  methods: string[]
  /** Headers that requests of pages may have. */
  allowedHeaders: string[]
  /** Headers that pages may read. */
  exposedHeaders: string[]
  /** Time for which browsers cache the answer to a preflight, in seconds. */
  maxAge: number
}

/**
 * Returns options of the npm package `cors` that let your pages on other origins log in and call guarded routes. The
 * middleware has to run before the routes of the login. With it, pages of `trustedOrigins` read every answer.
 * @param settings - the options of the service, or what `setupDidAuth` or `createDidAuth` returned
 * @param origins - further origins that may read answers, also of apps: `tauri://localhost`, `capacitor://localhost`
 * @throws DidAuthError ERR_CONFIG for anything but an origin as browsers spell it, and for `null`
 * @example
 * app.use(cors(corsOptions(config)))
 * const requireDid = setupDidAuth(app, config)
 */
export function corsOptions(
  { serviceUrl, trustedOrigins = [], useCookies = false }: CorsSettings,
  origins: readonly string[] = []
): CorsOptions {
  const ownOrigin = parseHttpUrl(serviceUrl)?.origin
  assertOrigins('trustedOrigins', trustedOrigins, isOrigin)
  assertOrigins('origins', origins, isAnyOrigin)
  return {
    origin: [...new Set([...(ownOrigin === undefined ? [] : [ownOrigin]), ...trustedOrigins, ...origins])],
    credentials: useCookies,
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    allowedHeaders: [...CORS_ALLOWED_HEADERS],
    exposedHeaders: [...CORS_EXPOSED_HEADERS],
    maxAge: CORS_MAX_AGE_SECONDS
  }
}

function assertOrigins(name: string, origins: unknown, isAccepted: (origin: unknown) => boolean): void {
  if (Array.isArray(origins) && origins.every(isAccepted)) return
  const message = `corsOptions: ${name}: received ${describe(name, origins)}; ${correctOrigins(origins)}`
  throw new DidAuthError('ERR_CONFIG', { message })
}
