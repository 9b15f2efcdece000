import { readField } from './json.js'

/**
 * Whether a value has the form of a P-256 key as JWK. It may still be no point of the curve.
 * @param members - required coordinates: with `d`, the key is private
 * @see RFC 7518, section 6.2
 */
export function isP256Key(key: unknown, members: readonly string[] = ['x', 'y']): boolean {
  const isComplete = members.every((name) => /^[\w-]{43}$/.test(String(readField(key, name))))
  return isComplete && readField(key, 'kty') === 'EC' && readField(key, 'crv') === 'P-256'
}
