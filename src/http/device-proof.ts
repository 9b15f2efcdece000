import type { Settings } from '../config/settings.js'
import type { PresentedProof } from '../flows/device-binding.js'
import { issueNonce } from '../flows/nonces.js'
import type { Parts } from '../flows/parts.js'
import type { HttpRequest } from '../http-messages.js'
import { parseHttpUrl, parseUrl } from '../protocol/parse-url.js'

/** Header that gives clients a nonce for their next device proofs. @see RFC 9449, section 8 */
export const NONCE_HEADER = 'DPoP-Nonce'

/**
 * Reads the device proof of a request; undefined if it has none. A proxy may remove the path of `serviceUrl` or a part
 * of it, so the proof may name the path with it or without.
 */
export function readDeviceProof(
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

/** Returns the header with a new nonce for device proofs; no header if logins bind no sessions. */
export function createNonceHeader(
  parts: Pick<Parts, 'settings' | 'random' | 'clock'>
): Readonly<Record<string, string>> {
  const { deviceBinding } = parts.settings
  return deviceBinding.mode === 'off' ? {} : { [NONCE_HEADER]: issueNonce(parts, deviceBinding).nonce }
}

/** Returns the path of a request in the spelling of the URL Standard, without query; empty if it is no path. */
function normalizePath(originalUrl: string): string {
  return parseUrl(`http://host${originalUrl}`)?.pathname ?? ''
}
