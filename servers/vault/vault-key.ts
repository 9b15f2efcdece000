import { authRoutes } from '../shared/login/auth-routes.js'
import { ServerError } from '../shared/http/server-error.js'

const MAX_KEY_BYTES = 512

const NO_KEYS: ReadonlySet<string> = new Set(['', '.', '..'])

/** C0, DEL and C1. */
const CONTROL_CHARACTER = /\p{Cc}/u

const reservedKeys: ReadonlySet<string> = new Set(authRoutes.map((route) => route.slice(1)))

/**
 * A key to write under, as Express has decoded it from its path segment: 1 to 512 bytes of UTF-8, no control characters,
 * and neither `.` nor `..`, which clients take out of paths. The names of the library's routes are reserved, in whatever
 * case: nothing could be posted there.
 *
 * @throws ServerError ERR_KEY, ERR_RESERVED_KEY
 */
export function parseKey(text: string): string {
  const isKey = !NO_KEYS.has(text) && Buffer.byteLength(text) <= MAX_KEY_BYTES && !CONTROL_CHARACTER.test(text)
  if (!isKey) throw new ServerError('ERR_KEY')
  if (reservedKeys.has(text.toLowerCase())) throw new ServerError('ERR_RESERVED_KEY')
  return text
}
