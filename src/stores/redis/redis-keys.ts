import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { QuotaCharge } from '../../ports.js'

/** Length of the user tag, with which session ids begin and which selects the cluster slot: 6 bytes as base64url. */
const TAG_CHARACTERS = 8
const USER_CHARACTERS = 24
const SERVICE_CHARACTERS = 16
const QUOTA_CHARACTERS = 22

/** Returns a user's unique id in keys and records: 18 bytes of SHA-256 of the canonical DID, as base64url. */
export function toUserId(canonicalDid: string): string {
  return sha256(canonicalDid).slice(0, USER_CHARACTERS)
}

/** Returns the prefix that all session ids of a user share. */
export function toUserTag(canonicalDid: string): string {
  return toUserId(canonicalDid).slice(0, TAG_CHARACTERS)
}

/** Creates the key of a hash of all sessions of a tag, usually of one user. @param id - begins with the tag */
export function createSessionsKey(service: string, id: string): string {
  return `${createSlot(service, id)}:s`
}

/** Creates the key of the records of ended sessions of a service. */
export function createEndedKey(service: string): string {
  return `e:${sha256(service).slice(0, SERVICE_CHARACTERS)}`
}

/** Creates the key of a user's challenge uses. @param user - result of {@link toUserId} */
export function createUsesKey(service: string, user: string): string {
  return `${createSlot(service, user)}:c:${user.slice(TAG_CHARACTERS)}`
}

/**
 * Creates the key of a quota, which does not reveal its owner; for strangers, the key of a bucket and a field in it.
 */
export function createQuotaKey({ service, kind, key }: QuotaCharge, buckets: number): [key: string, field: string] {
  const name = sha256(`${kind} ${service} ${key}`).slice(0, QUOTA_CHARACTERS)
  if (kind === 'request') return [`q:${name}`, '']
  return [`a:${(Buffer.from(name, 'base64url').readUInt32BE() % buckets).toString(36)}`, name]
}

/** Creates the hash tag of all keys of a user of a service, so that they are in one slot of a cluster. */
function createSlot(service: string, id: string): string {
  return `{${sha256(service).slice(0, SERVICE_CHARACTERS)}:${id.slice(0, TAG_CHARACTERS)}}`
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
