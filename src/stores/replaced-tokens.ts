import { Buffer } from 'node:buffer'
import { MAX_REPLACED_TOKENS, type ReplacedToken } from '../protocol/session.js'

const HASH_BYTES = 18
const TIME_BYTES = 6
const RECORD_BYTES = HASH_BYTES + TIME_BYTES
const HASH_CHARACTERS = (HASH_BYTES / 3) * 4
const RECORD_CHARACTERS = (RECORD_BYTES / 3) * 4

/** Maximum size of a session's replaced tokens in bytes, newest first. Older ones are dropped. */
export const REPLACED_BYTES = RECORD_BYTES * MAX_REPLACED_TOKENS

/** Packs a replaced token for its session: the first 18 bytes of the hash, then 6 bytes of time. */
export function packReplacedToken(hash: string, replacedAtSeconds: number): Buffer {
  const record = Buffer.alloc(RECORD_BYTES)
  record.write(hash, 0, HASH_BYTES, 'base64url')
  record.writeUIntBE(replacedAtSeconds, HASH_BYTES, TIME_BYTES)
  return record
}

/** Parses the replaced tokens of a session. Most refreshes do not need them, so stores parse them on first access. */
export function parseReplacedTokens(bytes: Buffer): ReplacedToken[] {
  // The record size is a multiple of 3 bytes, so one call can encode all records, in a third of the time.
  const text = bytes.toString('base64url')
  return Array.from({ length: Math.floor(bytes.length / RECORD_BYTES) }, (_, index) => {
    const start = index * RECORD_CHARACTERS
    const replacedAtSeconds = bytes.readUIntBE(index * RECORD_BYTES + HASH_BYTES, TIME_BYTES)
    return { hash: text.slice(start, start + HASH_CHARACTERS), replacedAtSeconds }
  })
}
