import { askPasskey } from '../wallets/ask-passkey.js'
import { browser } from '../wire/browser.js'
import { LOCKED } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { randomBytes, utf8, type Bytes } from '../wire/seal.js'
import type { Wallet } from '../wallets/wallet.js'

/** A way to open keyring slots of one type. */
export interface Unlocker {
  /** Kind of secret. It opens only slots of the same kind. */
  readonly type: 'recovery' | 'passkey' | 'wallet'
  /** Returns the secret of a slot, and may prompt the user. A new slot needs a secret that can be computed again. */
  secret(slot: { readonly id: string; readonly createdAt: number }, isNew: boolean): Promise<Bytes>
}

/** Digits of Crockford's base32, followed by the five that occur only as check symbols. */
const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ*~$=U'
const computeCheckDigit = (digits: readonly number[]): number =>
  digits.reduce((remainder, digit) => (remainder * 32 + digit) % 37, 0)

/**
 * Creates an unlocker for a recovery code: 160 bits as 32 digits of Crockford's base32, and the check symbol (modulo
 * 37). It accepts any case, dashes, spaces, O for 0, and I or L for 1. The secret is the UTF-8 of the 32 digits.
 *
 * @param code - default: a new code in groups of four. Show `code` of the result to the user
 */
export function recovery(code: string = createCode()): Unlocker & { readonly code: string } {
  return { type: 'recovery', code, secret: async () => utf8(parseCode(code)) }
}

function createCode(): string {
  const digits = Array.from(randomBytes(32), (byte) => byte % 32)
  const text = [...digits, computeCheckDigit(digits)].map((digit) => DIGITS.charAt(digit)).join('')
  return text.replace(/.{4}/g, '$&-')
}

/** Parses a recovery code to its 32 digits. @throws DidAuthClientError LOCKED for a wrong length or check symbol */
function parseCode(code: string): string {
  const text = code.toUpperCase().replace(/[\s-]/g, '').replace(/O/g, '0').replace(/[IL]/g, '1')
  const digits = Array.from(text.slice(0, 32), (character) => DIGITS.indexOf(character))
  const isValid =
    digits.every((digit) => digit >= 0 && digit < 32) && text.charAt(32) === DIGITS[computeCheckDigit(digits)]
  if (isValid && text.length === 33) return text.slice(0, 32)
  throw new DidAuthClientError(LOCKED, { message: 'Invalid recovery code' })
}

/** Creates an unlocker for passkeys with the PRF extension, such as those of `createPasskey`. It shows one prompt. */
export function passkey({ rpId }: { readonly rpId: string }): Unlocker {
  const context = 'express-did-auth keyring 1'
  return { type: 'passkey', secret: async () => (await askPasskey({ rpId, context })).secret }
}

/**
 * Creates an unlocker for a wallet whose signatures are deterministic. Adding a slot shows two prompts. Opening shows
 * one for each wallet slot until one fits. **Anybody with the signature can get the key.** The signed text contains the
 * page's host, so that wallets can warn on other pages.
 *
 * @param options - `domain` is the old host of the page, if it has changed since the slot was added
 */
export function wallet(signer: Wallet, { domain = browser.location?.host ?? 'localhost' } = {}): Unlocker {
  return {
    type: 'wallet',
    // Loaded on demand, because it needs a hash function for the checksum.
    secret: async (slot, isNew) => (await import('./wallet-secret.js')).requestWalletSecret(signer, domain, slot, isNew)
  }
}
