import { DidAuthError } from '../errors.js'
import type { Parts } from '../flows/parts.js'
import type { HttpAnswer, HttpRequest } from '../http-messages.js'
import { networkOfDid } from '../protocol/did.js'
import { listsEntityTag } from '../protocol/entity-tag.js'
import { ALGORITHMS_BY_KIND } from '../protocol/machine-did.js'
import { createRouteUrl } from '../protocol/parse-url.js'
import { jsonAnswer } from './answers.js'
import type { HttpParts } from './guard.js'

/** Header of public documents: caches keep them for 5 minutes. */
const PUBLIC_HEADERS = { 'Cache-Control': 'public, max-age=300' }

/** Answers `GET /.well-known/jwks.json` with the public keys of resource tokens. */
export async function answerKeys(http: HttpParts): Promise<HttpAnswer> {
  const { resourceKeys } = await http.parts()
  return jsonAnswer(await resourceKeys.publish(), PUBLIC_HEADERS)
}

const AFTER = /[?&]after=([^&]*)/

/**
 * Answers `GET /.well-known/ended-sessions?after=<seconds>` with the signed list of ended sessions, or 304 if the
 * request has its ETag.
 * @throws DidAuthError ERR_INVALID, ERR_TOO_MANY_REQUESTS, ERR_STORE, ERR_SIGNER
 */
export async function answerEndedSessions(http: HttpParts, request: HttpRequest): Promise<HttpAnswer> {
  const text = AFTER.exec(request.originalUrl)?.[1]
  if (text !== undefined && !/^\d{1,12}$/.test(text)) {
    throw new DidAuthError('ERR_INVALID', { reason: { check: 'after', expected: 'whole seconds' } })
  }
  const parts = await http.parts()
  const after = text === undefined ? undefined : Number(text)
  const { jwt, etag } = await parts.endedSessionLists.publish(parts, after, http.callerOf(request))
  const headers = { 'Cache-Control': 'max-age=1', ETag: etag }
  if (listsEntityTag(request.headers['if-none-match'], etag)) return { status: 304, headers }
  return { status: 200, headers: { ...headers, 'Content-Type': 'application/jwt' }, body: jwt }
}

/** Algorithms of assertions by which machines log in. */
const ASSERTION_ALGORITHMS = Object.values(ALGORITHMS_BY_KIND).flat()

/**
 * Answers `GET /.well-known/oauth-authorization-server` with the metadata of this service as an authorization server of
 * OAuth. Services that verify tokens for `resources` find the keys there, and machines the token endpoint.
 * @see RFC 8414, section 2
 */
export async function answerServerMetadata(
  { settings }: HttpParts,
  { mountPath }: Pick<HttpRequest, 'mountPath'>
): Promise<HttpAnswer> {
  const { serviceUrl, paths } = settings
  const token_endpoint = paths.token && createRouteUrl(serviceUrl, mountPath, paths.token)
  const metadata = {
    issuer: serviceUrl,
    ...(token_endpoint !== undefined && {
      token_endpoint,
      // Clients require it. It answers each request with an error.
      authorization_endpoint: token_endpoint,
      grant_types_supported: ['client_credentials'],
      token_endpoint_auth_methods_supported: ['private_key_jwt'],
      token_endpoint_auth_signing_alg_values_supported: ASSERTION_ALGORITHMS
    }),
    jwks_uri: paths.jwks && createRouteUrl(serviceUrl, mountPath, paths.jwks),
    response_types_supported: []
  }
  return jsonAnswer(metadata, PUBLIC_HEADERS)
}

/** Answers `GET /.well-known/did-auth.json` with the discovery document of this service. */
export async function answerDiscovery(http: HttpParts, { mountPath }: HttpRequest): Promise<HttpAnswer> {
  return jsonAnswer(describeService(await http.parts(), mountPath), PUBLIC_HEADERS)
}

/** Describes this service to clients and other services: its paths below the mount path, and the URL of its keys. */
function describeService({ settings }: Pick<Parts, 'settings'>, mountPath: string): object {
  const { serviceUrl, serviceDid, networks, loginDomains, paths, resources } = settings
  const siwe = settings.siwe && { network: settings.siwe.network, nonceSeconds: settings.siwe.nonceSeconds }
  const network = siwe?.network ?? networkOfDid(serviceDid)
  const jwks_uri = paths.jwks && createRouteUrl(serviceUrl, mountPath, paths.jwks)
  const ended_sessions_uri = paths.endedSessions && createRouteUrl(serviceUrl, mountPath, paths.endedSessions)
  const token_endpoint = paths.token && createRouteUrl(serviceUrl, mountPath, paths.token)
  const uris = { jwks_uri, ended_sessions_uri, token_endpoint }
  // Clients that know RFC 9449 find in this member that proofs are accepted.
  const dpop_signing_alg_values_supported = settings.deviceBinding.mode === 'off' ? undefined : ['ES256']
  return {
    version: 1,
    serviceUrl,
    serviceDid,
    network,
    networks,
    loginDomains,
    paths,
    siwe,
    ...uris,
    resources,
    dpop_signing_alg_values_supported
  }
}
