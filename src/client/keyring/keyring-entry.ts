import { KEYRING_MISSING, KEYRING_TAMPERED, LOCKED, TOO_LARGE } from '../error-codes.js'
import { DidAuthClientError } from '../errors.js'
import { parseFields, parseJson } from '../json.js'
import {
  crypt,
  decodeBase64url,
  encodeBase64url,
  hexOf,
  IV_BYTES,
  KEY_BYTES,
  randomBytes,
  utf8,
  type Bytes
} from '../seal.js'

/** The longest entry, in bytes: about 25 slots. */
const MAX_BYTES = 8_192

/** One way to open a keyring, as it is stored. */
export interface KeyringSlot {
  /** 32 random hex digits. */
  readonly id: string
  readonly type: 'recovery' | 'passkey' | 'wallet'
  /** For people: 1 to 64 characters, which everybody can read. */
  readonly label: string
  /** Seconds since the Unix epoch, by the clock of the device that added it. */
  readonly createdAt: number
  /** Base64url, as the two that follow. */
  readonly salt: string
  readonly iv: string
  /** The root key, encrypted. */
  readonly wrapped: string
}

/** What opens slots of one type. */
export interface Unlocker {
  readonly type: KeyringSlot['type']
  /** The secret of a slot, for which the user may be asked. A new slot takes only one that will come again. */
  secret(slot: Pick<KeyringSlot, 'id' | 'createdAt'>, isNew: boolean): Promise<Bytes>
}

/** The fields in the order of the mac. */
const FORMS: Readonly<Record<keyof KeyringSlot, RegExp>> = {
  id: /^[0-9a-f]{32}$/,
  type: /^(?:recovery|passkey|wallet)$/,
  label: /^[^\p{Cc}\p{Cs}]{1,64}$/u,
  createdAt: /^\d{1,10}$/,
  salt: /^[\w-]{43}$/,
  iv: /^[\w-]{16}$/,
  wrapped: /^[\w-]{64}$/
}
const NAMES = Object.keys(FORMS) as (keyof KeyringSlot)[]

function isSlot(value: unknown): value is KeyringSlot {
  const slot = parseFields(value)
  const typeOf = (name: string): string => (name === 'createdAt' ? 'number' : 'string')
  return NAMES.every((name) => typeof slot[name] === typeOf(name) && FORMS[name].test(String(slot[name])))
}

/** @throws DidAuthClientError TOO_LARGE */
export async function formatKeyring(root: Bytes, did: string, slots: readonly KeyringSlot[]): Promise<string> {
  const content = JSON.stringify({ v: 1, slots, mac: await macOf(root, did, slots) })
  if (utf8(content).length > MAX_BYTES) throw new DidAuthClientError(TOO_LARGE)
  return content
}

/**
 * The slots of what the vault has under the keyring's key: one entry `{ v: 1, slots, mac }`.
 *
 * @param findRoot - finds the root key, by which the mac is verified
 * @throws DidAuthClientError KEYRING_MISSING where nothing is; KEYRING_TAMPERED
 */
export async function parseKeyring(
  [content, ...others]: readonly string[],
  did: string,
  findRoot: (slots: readonly KeyringSlot[]) => Promise<Bytes> | Bytes
): Promise<{ readonly root: Bytes; readonly slots: readonly KeyringSlot[] }> {
  if (content === undefined) throw new DidAuthClientError(KEYRING_MISSING)
  const { v, slots, mac } = parseFields(content.length > MAX_BYTES ? undefined : parseJson(content))
  if (others.length === 0 && v === 1 && Array.isArray(slots) && slots.every(isSlot)) {
    const root = await findRoot(slots)
    if (mac === (await macOf(root, did, slots))) return { root, slots }
  }
  throw new DidAuthClientError(KEYRING_TAMPERED)
}

/**
 * Base64url of HMAC-SHA256 under HKDF-SHA256(root, no salt, `did-auth keyring mac 1`) over the JSON of `[1, canonical
 * DID, [[id, type, label, createdAt, salt, iv, wrapped], …]]`, as `JSON.stringify` writes it.
 */
async function macOf(root: Bytes, did: string, slots: readonly KeyringSlot[]): Promise<string> {
  const key = await hkdf(root, utf8(''), 'did-auth keyring mac 1')
  const imported = await crypto.subtle.importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
  const text = JSON.stringify([1, did, slots.map((slot) => NAMES.map((name) => slot[name]))])
  return encodeBase64url(new Uint8Array(await crypto.subtle.sign('HMAC', imported, utf8(text))))
}

/** Puts the root key into a new slot. */
export async function newSlot(root: Bytes, did: string, unlocker: Unlocker, label: string): Promise<KeyringSlot> {
  if (!FORMS.label.test(label)) throw new TypeError('A label has 1 to 64 characters')
  const [salt, iv] = [encodeBase64url(randomBytes(KEY_BYTES)), encodeBase64url(randomBytes(IV_BYTES))]
  const createdAt = Math.floor(Date.now() / 1_000)
  const slot = { id: hexOf(randomBytes(16)), type: unlocker.type, label, createdAt, salt, iv }
  const secret = await unlocker.secret(slot, true)
  const wrapped = encodeBase64url(await cryptSlot('encrypt', secret, did, slot, root))
  secret.fill(0)
  return { ...slot, wrapped }
}

/** The root key of the first slot that opens. @throws DidAuthClientError LOCKED */
export async function rootIn(slots: readonly KeyringSlot[], did: string, unlock: Unlocker): Promise<Bytes> {
  let secret: Bytes | undefined
  for (const slot of slots.filter(({ type }) => type === unlock.type)) {
    // A wallet has one for each slot.
    if (!secret || slot.type === 'wallet') secret = await unlock.secret(slot, false)
    const root = await cryptSlot('decrypt', secret, did, slot, decodeBase64url(slot.wrapped)).catch(() => undefined)
    if (root) {
      secret.fill(0)
      return root
    }
  }
  throw new DidAuthClientError(LOCKED)
}

/** AES-256-GCM under HKDF-SHA256(secret, salt, `did-auth keyring 1`), canonical DID, id and type as additional data. */
async function cryptSlot(
  verb: 'encrypt' | 'decrypt',
  secret: Bytes,
  did: string,
  { id, type, salt, iv }: Omit<KeyringSlot, 'wrapped'>,
  content: Bytes
): Promise<Bytes> {
  const key = await hkdf(secret, decodeBase64url(salt), 'did-auth keyring 1')
  return crypt(verb, key, decodeBase64url(iv), [did, id, type].join('\n'), content)
}

/** 32 bytes of HKDF-SHA256 (RFC 5869). */
async function hkdf(secret: Bytes, salt: Bytes, info: string): Promise<Bytes> {
  const key = await crypto.subtle.importKey('raw', secret, 'HKDF', false, ['deriveBits'])
  const algorithm = { name: 'HKDF', hash: 'SHA-256', salt, info: utf8(info) }
  return new Uint8Array(await crypto.subtle.deriveBits(algorithm, key, 256))
}
