import { parseFields } from './json.js'
import { decodeBase64url, decodeUtf8 } from './seal.js'

/** Decodes the payload of a JWT without verifying it, which is the service's task. Undefined for any other text. */
export function decodeJwt(jwt: string | undefined): Readonly<Record<string, unknown>> | undefined {
  try {
    return parseFields(JSON.parse(decodeUtf8(decodeBase64url(jwt?.split('.')[1] ?? ''))))
  } catch {
    return undefined
  }
}
