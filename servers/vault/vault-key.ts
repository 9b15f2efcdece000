import { authRoutes } from '../shared/auth-routes.js'
import { ServerError } from '../shared/server-error.js'

const MAX_KEY_BYTES = 512

/** C0, DEL and C1. */
const CONTROL_CHARACTER = /\p{Cc}/u

const reservedKeys: ReadonlySet<string> = new Set(authRoutes.map((route) => route.slice(1)))

/**
 * Whether text can be a key: 1 to 512 bytes of UTF-8, no control characters, and neither `.` nor `..`, which clients take
 * out of paths.
 */
export function isKey(text: string): boolean {
  if (text === '' || text === '.' || text === '..') return false
  return Buffer.byteLength(text) <= MAX_KEY_BYTES && !CONTROL_CHARACTER.test(text)
}

/** Whether a key is the name of one of the library's routes, in whatever case: nothing could be posted there. */
export function isReservedKey(key: string): boolean {
  return reservedKeys.has(key.toLowerCase())
}

/**
 * A key to write under, as Express has decoded it from its path segment.
 *
 * @throws ServerError ERR_KEY, ERR_RESERVED_KEY
 */
export function parseKey(text: string): string {
  if (!isKey(text)) throw new ServerError('ERR_KEY')
  if (isReservedKey(text)) throw new ServerError('ERR_RESERVED_KEY')
  return text
}
