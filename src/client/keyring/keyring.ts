import { CONFLICT, KEYRING_EXISTS, NOT_SIGNED_IN } from '../error-codes.js'
import { DidAuthClientError } from '../errors.js'
import { parseFields } from '../json.js'
import { joined, KEY_BYTES, randomBytes } from '../seal.js'
import { KEYRING_KEY } from '../vault/vault-answers.js'
import type { VaultClient } from '../vault/vault-client.js'
import { formatKeyring, newSlot, parseKeyring, rootIn, type KeyringSlot, type Unlocker } from './keyring-entry.js'
import { recovery } from './unlockers.js'

/** What a keyring needs of a `VaultClient`, with or without `encrypt`: either stores the keyring as it is. */
export type KeyringVault = Pick<VaultClient, 'did' | 'get' | 'replace'>

/** A keyring that was opened. */
export interface Keyring {
  /** 32 bytes, for `encrypt: { key }` of a `VaultClient`. */
  readonly key: Uint8Array
  /** As of the last read or write. */
  readonly slots: readonly KeyringSlot[]
  /**
   * Adds a way to open it. What another device has changed meanwhile is kept.
   *
   * @param label - for people: 1 to 64 characters, which everybody can read
   * @throws TypeError for another label; WALLET_NOT_DETERMINISTIC; TOO_LARGE with about 25 slots; CONFLICT where it was
   * changed twice meanwhile; KEYRING_TAMPERED; errors of vault, wallet and passkey
   */
  add(unlocker: Unlocker, label: string): Promise<void>
  /**
   * Removes a way to open it; one that is not there is removed. **The key stays:** an old copy of the keyring still
   * opens.
   *
   * @throws TypeError for the last slot; else as `add`
   */
  remove(id: string): Promise<void>
}

/**
 * Makes a new key for a vault, and stores it there, encrypted for a new recovery code and for each unlocker.
 *
 * @returns the key, and the code: show it to the user, because nothing else has it
 * @throws DidAuthClientError KEYRING_EXISTS; WALLET_NOT_DETERMINISTIC; NOT_SIGNED_IN where the user has changed
 * meanwhile; errors of vault, wallet and passkey
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
  if (contents.length > 0) throw new DidAuthClientError(KEYRING_EXISTS)
  const [did, key, onPaper] = [vault.did.toLowerCase(), randomBytes(KEY_BYTES), recovery()]
  const slots: KeyringSlot[] = []
  for (const unlocker of [onPaper, ...unlockers]) slots.push(await newSlot(key, did, unlocker, unlocker.type))
  const content = await formatKeyring(key, did, slots)
  // While the user was asked, another one may have logged in.
  if (vault.did.toLowerCase() !== did) throw new DidAuthClientError(NOT_SIGNED_IN)
  await vault.replace(KEYRING_KEY, content, { ifNoneMatch: '*' }).catch(async (cause: unknown) => {
    // The write may have happened and its answer be lost: then the code exists here alone.
    const { contents } = await vault.get(KEYRING_KEY).catch(() => ({ contents: [] }))
    if (contents[0] !== content) throw isConflict(cause) ? new DidAuthClientError(KEYRING_EXISTS, { cause }) : cause
  })
  return { key, recoveryCode: onPaper.code }
}

/**
 * Opens the keyring of the user, or of another DID, which needs no session.
 *
 * @throws DidAuthClientError LOCKED where no slot opens; KEYRING_MISSING; KEYRING_TAMPERED where it is not as a client
 * wrote it; errors of vault, wallet and passkey
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
  const did = owner.toLowerCase()
  const read = async (findRoot: Parameters<typeof parseKeyring>[2]) => {
    const { contents, etag } = await vault.get(KEYRING_KEY, owner)
    return { etag, ...(await parseKeyring(contents, did, findRoot)) }
  }
  let current = await read((slots) => rootIn(slots, did, unlock))
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
    key: joined([root]),
    get slots() {
      return current.slots
    },
    async add(unlocker, label) {
      const slot = await newSlot(root, did, unlocker, label)
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

const isConflict = (error: unknown): boolean => parseFields(error).code === CONFLICT[0]
