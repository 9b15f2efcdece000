import { askPasskey } from '../ask-passkey.js'
import { browser } from '../browser.js'
import { LOCKED } from '../error-codes.js'
import { DidAuthClientError } from '../errors.js'
import { randomBytes, utf8, type Bytes } from '../seal.js'
import type { Wallet } from '../wallet.js'

/** Opens slots of one type. */
export interface Unlocker {
  readonly type: 'recovery' | 'passkey' | 'wallet'
  /** Returns the secret of a slot; may ask the user. A new slot needs a secret that can be computed again. */
  secret(slot: { readonly id: string; readonly createdAt: number }, isNew: boolean): Promise<Bytes>
}

/** The digits of Crockford's base32, then those that only check symbols have. */
const DIGITS = '0123456789ABCDEFGHJKMNPQRSTVWXYZ*~$=U'
const computeCheckDigit = (digits: readonly number[]): number =>
  digits.reduce((rest, digit) => (rest * 32 + digit) % 37, 0)

/**
 * A code on paper: 160 bits as 32 digits of Crockford's base32, and Crockford's check symbol (the number modulo 37).
 * Any case, dashes, spaces, O for 0, I and L for 1 are accepted. The secret is the UTF-8 of the 32 digits.
 *
 * @param code - a new one when absent, in groups of four: show `code` of the result to the user
 */
export function recovery(code: string = createCode()): Unlocker & { readonly code: string } {
  return { type: 'recovery', code, secret: async () => utf8(parseCode(code)) }
}

function createCode(): string {
  const digits = Array.from(randomBytes(32), (byte) => byte % 32)
  const text = [...digits, computeCheckDigit(digits)].map((digit) => DIGITS.charAt(digit)).join('')
  return text.replace(/.{4}/g, '$&-')
}

/** @throws DidAuthClientError LOCKED for another length or check symbol */
function parseCode(code: string): string {
  const text = code.toUpperCase().replace(/[\s-]/g, '').replace(/O/g, '0').replace(/[IL]/g, '1')
  const digits = Array.from(text.slice(0, 32), (character) => DIGITS.indexOf(character))
  const isRight =
    digits.every((digit) => digit >= 0 && digit < 32) && text.charAt(32) === DIGITS[computeCheckDigit(digits)]
  if (isRight && text.length === 33) return text.slice(0, 32)
  throw new DidAuthClientError(LOCKED, { message: 'No recovery code' })
}

/** Returns a passkey with the extension PRF, as `createPasskey` makes it: the user chooses one in one prompt. */
export function passkey({ rpId }: { readonly rpId: string }): Unlocker {
  const context = 'express-did-auth keyring 1'
  return { type: 'passkey', secret: async () => (await askPasskey({ rpId, context })).secret }
}

/**
 * A wallet that signs the same each time. A new slot asks it twice; to open, it is asked for each slot of a wallet
 * until one opens. **Who has the signature has the key.** The text names the page's host, so that wallets can warn of
 * other pages.
 *
 * @param options - `domain` is another host than the page's, where that has changed since
 */
export function wallet(signer: Wallet, { domain = browser.location?.host ?? 'localhost' } = {}): Unlocker {
  return {
    type: 'wallet',
    // Loaded on first use, with the hash for the checksum.
    secret: async (slot, isNew) => (await import('./wallet-secret.js')).requestWalletSecret(signer, domain, slot, isNew)
  }
}
