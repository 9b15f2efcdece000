import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { QuotaCharge } from '../../ports.js'

/** Characters of a session id that name its user, and with them the slot of a cluster: 6 bytes as base64url. */
const TAG_CHARACTERS = 8
const USER_CHARACTERS = 24
const SERVICE_CHARACTERS = 16
const QUOTA_CHARACTERS = 22

/** A user in keys and records: 18 bytes of SHA-256 of the canonical DID, base64url, which name a user without doubt. */
export function toUserId(canonicalDid: string): string {
  return sha256(canonicalDid).slice(0, USER_CHARACTERS)
}

/** What each of a user's session ids begins with. */
export function toUserTag(canonicalDid: string): string {
  return toUserId(canonicalDid).slice(0, TAG_CHARACTERS)
}

/** A hash with the sessions of all users of one tag, nearly always one user. @param id - begins with the tag */
export function createSessionsKey(service: string, id: string): string {
  return `${createSlot(service, id)}:s`
}

/** A user's uses of challenges. @param user - as of {@link toUserId} */
export function createUsesKey(service: string, user: string): string {
  return `${createSlot(service, user)}:c:${user.slice(TAG_CHARACTERS)}`
}

/** Of a user: a key that does not reveal its owner. Of a stranger: the key of its bucket, and its field there. */
export function createQuotaKey({ service, kind, key }: QuotaCharge, buckets: number): [key: string, field: string] {
  const name = sha256(`${kind} ${service} ${key}`).slice(0, QUOTA_CHARACTERS)
  if (kind === 'request') return [`q:${name}`, '']
  return [`a:${(Buffer.from(name, 'base64url').readUInt32BE() % buckets).toString(36)}`, name]
}

/** All keys of one user of a service have one hash tag, and so lie in one slot of a cluster. */
function createSlot(service: string, id: string): string {
  return `{${sha256(service).slice(0, SERVICE_CHARACTERS)}:${id.slice(0, TAG_CHARACTERS)}}`
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
