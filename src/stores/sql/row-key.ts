import { createHash } from 'node:crypto'
import type { Buffer } from 'node:buffer'
import { canonicalDid } from '../../protocol/did.js'

const KEY_BYTES = 16

/**
 * The key of a row: 16 bytes of SHA-256. It begins with the service, so that no service on the same database can name a
 * row of another, and it is shorter than what it stands for.
 */
export function rowKey(service: string, name: string): Buffer {
  // A serviceUrl has no line feed.
  return createHash('sha256').update(`${service}\n${name}`).digest().subarray(0, KEY_BYTES)
}

export function userKey(service: string, did: string): Buffer {
  return rowKey(service, canonicalDid(did))
}
