import type { Settings } from '../config/settings.js'
import type { DidAuthError } from '../errors.js'
import {
  assertBoundDevice,
  assertRequestOfDevice,
  bindToDevice,
  type BoundSession,
  type PresentedProof
} from '../flows/device-binding.js'
import { issueNonce } from '../flows/nonces.js'
import type { Parts } from '../flows/parts.js'
import type { HttpRequest } from '../http-messages.js'
import type { AuthenticatedUser, Client } from '../ports.js'
import type { JsonObject } from '../protocol/json.js'
import { parseHttpUrl, parseUrl } from '../protocol/parse-url.js'

/** Header that gives clients a nonce for their next device proofs. @see RFC 9449, section 8 */
const NONCE_HEADER = 'DPoP-Nonce'

/** Parts from which a nonce is issued. */
export type NonceParts = Pick<Parts, 'settings' | 'random' | 'clock'>

/** Returns the claims that bind the session of a login to the device of its request. @throws as `bindToDevice` */
export function bindSession(parts: Parts, request: HttpRequest): JsonObject | undefined {
  return bindToDevice(parts, () => readDeviceProof(parts, request))
}

/**
 * Asserts that a request for new tokens of a bound session comes from its device.
 * @param accessToken - the token that the request presents, if the proof has to name one
 * @throws as `assertBoundDevice`
 */
export function assertBound(
  parts: Parts,
  session: BoundSession,
  request: HttpRequest,
  client: Client,
  accessToken?: string
): Promise<void> {
  return assertBoundDevice(parts, session, () => readDeviceProof(parts, request), client, accessToken)
}

/** Asserts that the device of a bound session made a request to a guarded route. @throws as `assertRequestOfDevice` */
export function assertDevice(
  parts: Parts,
  user: AuthenticatedUser,
  request: HttpRequest,
  accessToken: string | undefined
): void {
  assertRequestOfDevice(parts, user, readDeviceProof(parts, request), accessToken)
}

/** Returns the header with a new nonce for device proofs; no header if logins bind no sessions. */
export function createNonceHeader(parts: NonceParts): Readonly<Record<string, string>> {
  const { deviceBinding } = parts.settings
  return deviceBinding.mode === 'off' ? {} : { [NONCE_HEADER]: issueNonce(parts, deviceBinding).nonce }
}

/** Returns the header with the nonce of a refused or missing device proof; undefined for other errors. */
export function findNonceHeader({ code, details }: DidAuthError): Readonly<Record<string, string>> | undefined {
  const nonce = code === 'ERR_DEVICE_NONCE' || code === 'ERR_DEVICE_PROOF' ? details?.nonce : undefined
  return nonce === undefined ? undefined : { [NONCE_HEADER]: nonce }
}

/**
 * Reads the device proof of a request; undefined if it has none. A proxy may remove the path of `serviceUrl` or a part
 * of it, so the proof may name the path with it or without.
 */
function readDeviceProof(
  { settings }: { settings: Pick<Settings, 'serviceUrl' | 'trustedOrigins'> },
  request: HttpRequest
): PresentedProof | undefined {
  const proof = request.headers.dpop
  if (proof === undefined) return undefined
  const { method, originalUrl, mountPath } = request
  const path = normalizePath(originalUrl)
  const servicePath = (parseHttpUrl(settings.serviceUrl)?.pathname ?? '').replace(/\/+$/, '')
  const paths = [path, servicePath + path]
  // Express ignores case in mount paths.
  const hasMountPath = servicePath.toLowerCase().endsWith(mountPath.toLowerCase())
  if (hasMountPath) paths.push(servicePath + path.slice(mountPath.length))
  return { proof, method, origins: settings.trustedOrigins, paths }
}

/** Returns the path of a request in the spelling of the URL Standard, without query; empty if it is no path. */
function normalizePath(originalUrl: string): string {
  return parseUrl(`http://host${originalUrl}`)?.pathname ?? ''
}
