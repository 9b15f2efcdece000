import { canonicalDid } from '../../protocol/canonical-did.js'
import * as codes from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { parseFields, parseJson } from '../wire/json.js'
import {
  crypt,
  decodeBase64url,
  encodeBase64url,
  encodeHex,
  IV_BYTES,
  KEY_BYTES,
  randomBytes,
  utf8,
  getSubtle
} from '../wire/seal.js'
import type { Bytes } from '../wire/seal.js'
import { KEYRING_KEY, type VaultClient } from '../vault/vault-client.js'
import { recovery, type Unlocker } from './unlockers.js'

/** Maximum size of the keyring's entry in bytes: about 25 slots. */
const MAX_BYTES = 8_192

/** One way to open a keyring, in its stored form. `salt`, `iv` and `wrapped` are base64url. */
export interface KeyringSlot {
  /** 32 random hex digits. */
  readonly id: string
  /** Kind of secret that opens the slot. */
  readonly type: Unlocker['type']
  /** Name for users, 1 to 64 characters. It is stored unencrypted, so everybody can read it. */
  readonly label: string
  /** Seconds since the Unix epoch, by the clock of the device that added it. */
  readonly createdAt: number
  /** Random input of the key derivation, 32 bytes. */
  readonly salt: string
  /** Random initial value of the encryption, 12 bytes. */
  readonly iv: string
  /** The root key, encrypted. */
  readonly wrapped: string
}

/** The part of a `VaultClient` that a keyring needs. The option `encrypt` does not apply to the keyring's entry. */
export type KeyringVault = Pick<VaultClient, 'did' | 'get' | 'replace'>

/** An open keyring. */
export interface Keyring {
  /** 32 bytes, for `encrypt: { key }` of a `VaultClient`. */
  readonly key: Uint8Array
  /** Slots as of the last read or write. */
  readonly slots: readonly KeyringSlot[]
  /**
   * Adds a way to open the keyring. It preserves concurrent changes by another device.
   *
   * @throws TypeError for an invalid label; WALLET_NOT_DETERMINISTIC; TOO_LARGE above about 25 slots; CONFLICT after
   * two concurrent changes; KEYRING_TAMPERED; errors of vault, wallet and passkey
   */
  add(unlocker: Unlocker, label: string): Promise<void>
  /**
   * Removes a way to open the keyring; an unknown id changes nothing. **The key stays the same**, so an old copy of the
   * keyring still opens.
   *
   * @throws TypeError for the last slot; otherwise as `add`
   */
  remove(id: string): Promise<void>
}

/**
 * Creates a new key for a vault and stores it there, encrypted for a new recovery code and for each unlocker.
 *
 * @returns the key, and the recovery code, which is stored nowhere: show it to the user
 * @throws DidAuthClientError KEYRING_EXISTS; WALLET_NOT_DETERMINISTIC; NOT_SIGNED_IN if another user logged in during
 * the call; errors of vault, wallet and passkey
 * @example
 * const { key, recoveryCode } = await createKeyring({ vault, unlockers: [passkey({ rpId: location.hostname })] })
 * const notes = new VaultClient({ auth, encrypt: { key } })
 */
export async function createKeyring({
  vault,
  unlockers = []
}: {
  readonly vault: KeyringVault
  readonly unlockers?: readonly Unlocker[]
}): Promise<{ readonly key: Uint8Array; readonly recoveryCode: string }> {
  const { contents } = await vault.get(KEYRING_KEY)
  if (contents.length > 0) throw new DidAuthClientError(codes.KEYRING_EXISTS)
  const [did, key, recoveryUnlocker] = [canonicalDid(vault.did), randomBytes(KEY_BYTES), recovery()]
  const slots: KeyringSlot[] = []
  for (const unlocker of [recoveryUnlocker, ...unlockers])
    slots.push(await createSlot(key, did, unlocker, unlocker.type))
  const content = await formatKeyring(key, did, slots)
  // Another user may have logged in during the prompt.
  if (canonicalDid(vault.did) !== did) throw new DidAuthClientError(codes.NOT_SIGNED_IN)
  await vault.replace(KEYRING_KEY, content, { ifNoneMatch: '*' }).catch(async (cause: unknown) => {
    // If only the response was lost, the keyring is stored, and the caller must get its recovery code.
    const { contents } = await vault.get(KEYRING_KEY).catch(() => ({ contents: [] }))
    if (contents[0] === content) return
    throw isConflict(cause) ? new DidAuthClientError(codes.KEYRING_EXISTS, { cause }) : cause
  })
  return { key, recoveryCode: recoveryUnlocker.code }
}

/**
 * Opens the keyring of the user, or of another DID, which needs no session.
 *
 * @throws DidAuthClientError LOCKED if no slot opens; KEYRING_MISSING; KEYRING_TAMPERED if something other than a
 * client changed it; errors of vault, wallet and passkey
 * @example
 * const { key } = await openKeyring({ vault, unlock: recovery(code) })
 */
export async function openKeyring({
  vault,
  unlock,
  did: owner = vault.did
}: {
  readonly vault: KeyringVault
  readonly unlock: Unlocker
  readonly did?: string
}): Promise<Keyring> {
  const did = canonicalDid(owner)
  const read = async (findRoot: Parameters<typeof parseKeyring>[2]) => {
    const { contents, etag } = await vault.get(KEYRING_KEY, owner)
    return { etag, ...(await parseKeyring(contents, did, findRoot)) }
  }
  let current = await read((slots) => unlockRoot(slots, did, unlock))
  const { root } = current
  const change = async (edit: (slots: readonly KeyringSlot[]) => readonly KeyringSlot[]): Promise<void> => {
    const write = async (): Promise<void> => {
      const slots = edit(current.slots)
      const content = await formatKeyring(root, did, slots)
      const { etag } = await vault.replace(KEYRING_KEY, content, { ifMatch: current.etag })
      current = { root, slots, etag }
    }
    await write().catch(async (error: unknown) => {
      if (!isConflict(error)) throw error
      current = await read(() => root)
      await write()
    })
  }
  return {
    key: new Uint8Array(root),
    get slots() {
      return current.slots
    },
    async add(unlocker, label) {
      const slot = await createSlot(root, did, unlocker, label)
      await change((slots) => [...slots, slot])
    },
    remove: (id) =>
      change((slots) => {
        const others = slots.filter((slot) => slot.id !== id)
        if (others.length === 0) throw new TypeError('Add another slot before you remove the last')
        return others
      })
  }
}

const isConflict = (error: unknown): boolean => parseFields(error).code === codes.CONFLICT[0]

/** Formats of the slot's fields, in the order in which the MAC covers them. */
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
  const findFieldType = (name: string): string => (name === 'createdAt' ? 'number' : 'string')
  return NAMES.every((name) => typeof slot[name] === findFieldType(name) && FORMS[name].test(String(slot[name])))
}

/** Formats a keyring with its MAC. @throws DidAuthClientError TOO_LARGE */
async function formatKeyring(root: Bytes, did: string, slots: readonly KeyringSlot[]): Promise<string> {
  const content = JSON.stringify({ v: 1, slots, mac: await computeMac(root, did, slots) })
  if (utf8(content).length > MAX_BYTES) throw new DidAuthClientError(codes.TOO_LARGE)
  return content
}

/**
 * Parses the entries that the vault has under the keyring's key: exactly one, `{ v: 1, slots, mac }`.
 *
 * @throws DidAuthClientError KEYRING_MISSING without an entry; KEYRING_TAMPERED
 */
async function parseKeyring(
  [content, ...others]: readonly string[],
  did: string,
  findRoot: (slots: readonly KeyringSlot[]) => Promise<Bytes> | Bytes
): Promise<{ readonly root: Bytes; readonly slots: readonly KeyringSlot[] }> {
  if (content === undefined) throw new DidAuthClientError(codes.KEYRING_MISSING)
  const { v, slots, mac } = parseFields(content.length > MAX_BYTES ? undefined : parseJson(content))
  if (others.length === 0 && v === 1 && Array.isArray(slots) && slots.every(isSlot)) {
    const root = await findRoot(slots)
    if (mac === (await computeMac(root, did, slots))) return { root, slots }
  }
  throw new DidAuthClientError(codes.KEYRING_TAMPERED)
}

/**
 * Computes base64url of HMAC-SHA256 under HKDF-SHA256(root, no salt, `did-auth keyring mac 1`) over `[1, canonical
 * DID, [[id, type, label, createdAt, salt, iv, wrapped], …]]` in the form of `JSON.stringify`.
 */
async function computeMac(root: Bytes, did: string, slots: readonly KeyringSlot[]): Promise<string> {
  const key = await hkdf(root, utf8(''), 'did-auth keyring mac 1')
  const imported = await getSubtle().importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])
  const text = JSON.stringify([1, did, slots.map((slot) => NAMES.map((name) => slot[name]))])
  return encodeBase64url(new Uint8Array(await getSubtle().sign('HMAC', imported, utf8(text))))
}

async function createSlot(root: Bytes, did: string, unlocker: Unlocker, label: string): Promise<KeyringSlot> {
  if (!FORMS.label.test(label)) throw new TypeError('A label has 1 to 64 characters')
  const [salt, iv] = [encodeBase64url(randomBytes(KEY_BYTES)), encodeBase64url(randomBytes(IV_BYTES))]
  const createdAt = Math.floor(Date.now() / 1_000)
  const slot = { id: encodeHex(randomBytes(16)), type: unlocker.type, label, createdAt, salt, iv }
  const secret = await unlocker.secret(slot, true)
  const wrapped = encodeBase64url(await sealSlot('encrypt', secret, did, slot, root))
  secret.fill(0)
  return { ...slot, wrapped }
}

/** Returns the root key of the first slot that opens. @throws DidAuthClientError LOCKED */
async function unlockRoot(slots: readonly KeyringSlot[], did: string, unlock: Unlocker): Promise<Bytes> {
  // Otherwise its absence would look like a wrong secret.
  getSubtle()
  let secret: Bytes | undefined
  for (const slot of slots.filter(({ type }) => type === unlock.type)) {
    // A wallet has another secret for each slot.
    if (!secret || slot.type === 'wallet') secret = await unlock.secret(slot, false)
    const root = await sealSlot('decrypt', secret, did, slot, decodeBase64url(slot.wrapped)).catch(() => undefined)
    if (root) {
      secret.fill(0)
      return root
    }
  }
  throw new DidAuthClientError(codes.LOCKED)
}

/** Wraps or unwraps a key by AES-256-GCM under HKDF-SHA256(secret, salt, `did-auth keyring 1`). Binds DID, id, type. */
async function sealSlot(
  verb: 'encrypt' | 'decrypt',
  secret: Bytes,
  did: string,
  { id, type, salt, iv }: Omit<KeyringSlot, 'wrapped'>,
  content: Bytes
): Promise<Bytes> {
  const key = await hkdf(secret, decodeBase64url(salt), 'did-auth keyring 1')
  return crypt(verb, key, decodeBase64url(iv), [did, id, type].join('\n'), content)
}

/** Derives 32 bytes by HKDF-SHA256 (RFC 5869). */
async function hkdf(secret: Bytes, salt: Bytes, info: string): Promise<Bytes> {
  const key = await getSubtle().importKey('raw', secret, 'HKDF', false, ['deriveBits'])
  const algorithm = { name: 'HKDF', hash: 'SHA-256', salt, info: utf8(info) }
  return new Uint8Array(await getSubtle().deriveBits(algorithm, key, 256))
}
