import { isObject } from '../protocol/json.js'
import { isSecureUrl, parseUrl } from '../protocol/parse-url.js'
import { createConfigError } from './issuer-keys.js'

const WELL_KNOWN = '/.well-known/oauth-protected-resource'

/** Headers of the document: pages of every origin may read it, and caches keep it for 5 minutes. */
const PUBLIC_HEADERS = {
  'Content-Type': 'application/json; charset=utf-8',
  'Access-Control-Allow-Origin': '*',
  'Cache-Control': 'public, max-age=300'
}

/** Options of {@link protectedResource}. */
export interface ProtectedResourceOptions {
  /** URL of this service, exactly as the issuer lists it in `resources`: https, or this machine, without query. */
  resource: string
  /** `serviceUrl` of each service that issues tokens for it, at least one. */
  authorizationServers: readonly string[]
  /** Further members of the document, such as `{ resource_name: 'Orders' }` (RFC 9728, section 2). */
  members?: Readonly<Record<string, unknown>> | undefined
}

/** Part of an Express request that the middleware uses. */
export interface MetadataRequest {
  /** HTTP method in upper case. The middleware answers GET, HEAD and OPTIONS. */
  readonly method?: string | undefined
  /** Path and query as the client sent them. */
  readonly originalUrl?: string | undefined
}

/** Part of an Express response that the middleware uses. */
export interface MetadataResponse {
  /** HTTP status, which the middleware sets. */
  statusCode: number
  /** Sets a header of the response. */
  setHeader(name: string, value: string): unknown
  /** Sends the response with this body. */
  end(body?: string): unknown
}

/** Metadata of a protected resource. */
export interface ProtectedResource {
  /** URL of the document, for `resourceMetadata` of `requireToken`. */
  readonly url: string
  /** Path of the document at the root of the origin, for the routes of other frameworks. */
  readonly path: string
  /** The document, which is sent as JSON. */
  readonly document: Readonly<Record<string, unknown>>
  /** Express middleware that answers GET and preflight requests for the document. Use it at the root of the app. */
  readonly handler: (req: MetadataRequest, res: MetadataResponse, next: () => void) => void
}

/**
 * Creates the metadata by which OAuth and MCP clients find the services that issue tokens for this one.
 *
 * @throws DidAuthError ERR_CONFIG
 * @see RFC 9728, sections 2 and 3
 * @example
 * const metadata = protectedResource({ resource: 'https://mcp.example/mcp', authorizationServers: ['https://auth.example'] })
 * app.use(metadata.handler)
 * app.use('/mcp', requireToken(verify, { resourceMetadata: metadata.url }))
 */
export function protectedResource(options: ProtectedResourceOptions): ProtectedResource {
  const { resource, authorizationServers, members = {} } = options
  if (!isResource(resource))
    throw createConfigError(
      'resource: give the URL of this service, https or on this machine, without query and fragment'
    )
  if (
    !Array.isArray(authorizationServers) ||
    authorizationServers.length === 0 ||
    !authorizationServers.every(isSecureUrl)
  )
    throw createConfigError('authorizationServers: give an array of URLs, https or on this machine')
  if (!isObject(members)) throw createConfigError('members: give an object')
  const { origin, pathname } = new URL(resource)
  const path = `${WELL_KNOWN}${pathname === '/' ? '' : pathname}`
  const required = { resource, authorization_servers: [...authorizationServers], bearer_methods_supported: ['header'] }
  const document = Object.freeze({ ...members, ...required })
  const body = JSON.stringify(document)
  return {
    url: `${origin}${path}`,
    path,
    document,
    handler({ method = 'GET', originalUrl = '' }, res, next) {
      const isDocument = removeSlash(originalUrl.replace(/[?#].*$/s, '')) === removeSlash(path)
      if (!isDocument || !['GET', 'HEAD', 'OPTIONS'].includes(method)) {
        next()
        return
      }
      for (const [name, value] of Object.entries(PUBLIC_HEADERS)) res.setHeader(name, value)
      if (method === 'OPTIONS') {
        // Clients of MCP send a header with the version of the protocol, for which browsers ask first.
        res.setHeader('Access-Control-Allow-Headers', '*')
        res.statusCode = 204
      }
      res.end(method === 'GET' ? body : undefined)
    }
  }
}

/** Whether a value identifies a resource. @see RFC 8707, section 2 */
function isResource(value: unknown): value is string {
  return isSecureUrl(value) && !/[?#]/.test(value) && parseUrl(value)?.username === ''
}

function removeSlash(path: string): string {
  return path.replace(/\/$/, '')
}
