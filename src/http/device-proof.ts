import type { Settings } from '../config/settings.js'
import type { PresentedProof } from '../flows/device-binding.js'
import { issueNonce } from '../flows/nonces.js'
import type { Parts } from '../flows/parts.js'
import type { HttpRequest } from '../http-messages.js'
import { createRouteUrl, parseUrl } from '../protocol/parse-url.js'

/** Header that gives clients a nonce for their next device proofs. @see RFC 9449, section 8 */
export const NONCE_HEADER = 'DPoP-Nonce'

/** Reads the device proof of a request; undefined if it has none. Clients may see two paths: a proxy may cut one. */
export function readDeviceProof(
  { settings }: { settings: Pick<Settings, 'serviceUrl' | 'trustedOrigins'> },
  request: HttpRequest
): PresentedProof | undefined {
  const proof = request.headers.dpop
  if (proof === undefined) return undefined
  const { method, originalUrl, mountPath } = request
  const path = originalUrl.replace(/[?#].*$/s, '')
  const urls = [`http://host${path}`, createRouteUrl(settings.serviceUrl, mountPath, path.slice(mountPath.length))]
  const paths = urls.flatMap((url = '') => parseUrl(url)?.pathname ?? [])
  return { proof, method, origins: settings.trustedOrigins, paths }
}

/** Returns the header with a new nonce for device proofs; no header if logins bind no sessions. */
export function createNonceHeader(
  parts: Pick<Parts, 'settings' | 'random' | 'clock'>
): Readonly<Record<string, string>> {
  const { deviceBinding } = parts.settings
  return deviceBinding.mode === 'off' ? {} : { [NONCE_HEADER]: issueNonce(parts, deviceBinding).nonce }
}
