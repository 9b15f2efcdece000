import { authRoutes } from '../http/did-auth.js'
import { ServerError } from '../http/server-error.js'
import type { Precondition } from '../content/content-store.js'

const MAX_KEY_BYTES = 512
const NO_KEYS: ReadonlySet<string> = new Set(['', '.', '..'])
/** Control characters: C0, DEL and C1. */
const CONTROL_CHARACTER = /\p{Cc}/u
const reservedKeys: ReadonlySet<string> = new Set(authRoutes.map((route) => route.slice(1)))

/** Whether a path is a login route in other letter case, such as `/LOGOUT`. Express would match it as that route. */
export function isOddSpelling(path: string): boolean {
  const name = path.replace(/^\/|\/$/g, '')
  return !reservedKeys.has(name) && reservedKeys.has(name.toLowerCase())
}

/**
 * Validates the decoded key of a write: 1 to 512 bytes of UTF-8 without control characters. `.` and `..` are refused,
 * because clients resolve them in paths. Names of the library's routes are reserved in any letter case, because the
 * library would handle the POST.
 *
 * @throws ServerError ERR_KEY, ERR_RESERVED_KEY
 */
function parseKey(text: string): string {
  const isKey = !NO_KEYS.has(text) && Buffer.byteLength(text) <= MAX_KEY_BYTES && !CONTROL_CHARACTER.test(text)
  if (!isKey) throw new ServerError('ERR_KEY')
  if (reservedKeys.has(text.toLowerCase())) throw new ServerError('ERR_RESERVED_KEY')
  return text
}

const ENTITY_TAGS = /^(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*"(?:[ \t]*,[ \t]*(?:W\/)?"[\x21\x23-\x7e\x80-\xff]*")*$/

/**
 * Parses key and precondition of a write: `If-Match` with ETags or `*`, and `If-None-Match: *`. No weak ETag matches.
 *
 * @throws ServerError ERR_KEY, ERR_RESERVED_KEY; ERR_INVALID_REQUEST for others: ignoring them could overwrite data
 * @see RFC 9110, sections 13.1.1 and 13.1.2
 */
export function parseWrite(
  keyText: string,
  headers: Readonly<Record<string, string | string[] | undefined>>
): { readonly key: string } & Precondition {
  const key = parseKey(keyText)
  const { 'if-match': ifMatch, 'if-none-match': ifNoneMatch } = headers
  if (ifNoneMatch !== undefined && ifNoneMatch !== '*') {
    throw new ServerError('ERR_INVALID_REQUEST', { detail: 'If-None-Match must be * on a write' })
  }
  return {
    key,
    ...(ifMatch !== undefined && { ifMatch: parseEntityTags(String(ifMatch)) }),
    ...(ifNoneMatch !== undefined && { ifNoneMatch })
  }
}

function parseEntityTags(text: string): readonly string[] | '*' {
  if (text === '*') return text
  if (!ENTITY_TAGS.test(text)) {
    throw new ServerError('ERR_INVALID_REQUEST', { detail: 'If-Match must be * or a list of quoted ETags' })
  }
  return text.match(/(?:W\/)?"[^"]*"/g) ?? []
}
