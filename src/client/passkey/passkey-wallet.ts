import { ecdsa, weierstrassN } from '@noble/curves/abstract/weierstrass.js'
import { hkdf } from '@noble/hashes/hkdf.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { bytesToHex } from '@noble/hashes/utils.js'
import { askPasskey } from '../wallets/ask-passkey.js'
import { NO_PASSKEY } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { decodeBase64url, encodeBase64url, utf8 } from '../wire/seal.js'
import { pause } from '../wire/timing.js'
import type { PlainWallet } from '../wallets/wallet.js'

/** Curve without the fast verification of the library, which is a kilobyte of code. @see SEC 2, section 2.4.1 */
const secp256k1 = ecdsa(
  weierstrassN({
    p: 0xfffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2fn,
    n: 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n,
    h: 1n,
    a: 0n,
    b: 7n,
    Gx: 0x79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798n,
    Gy: 0x483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8n
  }),
  sha256,
  { lowS: true }
)
const CONTEXT = 'express-did-auth passkey wallet 1'
/** Time for which the private key of the first prompt is cached for the first signature. */
const CACHE_SECONDS = 60

/** Domain of the passkey: the page's host or a parent domain. **The DID belongs to this domain.** */
export interface PasskeyOptions {
  /** Host without scheme and port: `example.com`, or `localhost`. */
  readonly rpId: string
}

/**
 * A wallet whose private key is derived from a passkey, and lost with it. The first signature within a minute needs no
 * prompt. Every other signature shows one, and throws `USER_REJECTED` or `WALLET` if it fails.
 */
export interface PasskeyWallet extends PlainWallet {
  /** Returns the `personal_sign` signature of a text: `0x` and 65 bytes in hex. */
  signMessage(text: string): Promise<string>
  /** Returns the ES256K credential of a relay's login, for `credential` of `RelayClient`. */
  credential(challenge: string, did: string): Promise<string>
}

/**
 * Creates a passkey, which the user confirms, and returns its wallet. A passkey that computes no secret during its
 * creation shows a second prompt. If that fails, the error has `passkeyId`, and another call creates no second passkey.
 *
 * @param options - `userName` is the name in the user's list of passkeys
 * @throws DidAuthClientError NO_PASSKEY without the PRF extension, USER_REJECTED, WALLET. If a new passkey turns out to
 * lack PRF, it stays in the user's list, and `userMessage` says so
 * @example
 * const wallet = await createPasskey({ rpId: location.hostname, userName: 'Ada' })
 * await auth.logIn({ wallet })
 */
export function createPasskey(options: PasskeyOptions & { readonly userName: string }): Promise<PasskeyWallet> {
  return createPasskeyWallet(options)
}

/** Opens the wallet of a passkey that the user chooses, with one prompt. @throws as {@link createPasskey} does */
export function openPasskey({ rpId }: PasskeyOptions): Promise<PasskeyWallet> {
  return createPasskeyWallet({ rpId })
}

async function createPasskeyWallet(options: PasskeyOptions & { readonly userName?: string }): Promise<PasskeyWallet> {
  const { rpId } = options
  const { id, secret } = await askPasskey({ ...options, context: CONTEXT })
  const passkeyId = encodeBase64url(new Uint8Array(id))
  let cachedKey: Uint8Array | undefined = derivePrivateKey(secret, rpId)
  const address = computeAddress(cachedKey)
  void pause(CACHE_SECONDS).then(() => {
    cachedKey?.fill(0)
    cachedKey = undefined
  })
  return passkeyWallet({ rpId, passkeyId, address }, () => {
    const key = cachedKey
    cachedKey = undefined
    return key
  })
}

/**
 * Returns the wallet of a passkey whose id and address are known.
 *
 * @param passkey - `passkeyId` is the WebAuthn id of the passkey in base64url
 * @param takeKey - returns the cached private key once. Without it, a signature asks the passkey
 */
export function passkeyWallet(
  { rpId, passkeyId, address }: PasskeyOptions & { readonly passkeyId: string; readonly address: string },
  takeKey = (): Uint8Array | undefined => undefined
): PasskeyWallet {
  /** Signs a hash. @returns the recovery id (1 byte), r and s */
  const sign = async (hash: Uint8Array): Promise<Uint8Array> => {
    const question = { rpId, id: decodeBase64url(passkeyId).buffer, context: CONTEXT }
    const key = takeKey() ?? derivePrivateKey((await askPasskey(question)).secret, rpId)
    // iOS before 18.4 gives another secret when it creates a passkey than later.
    if (computeAddress(key) !== address.toLowerCase()) {
      key.fill(0)
      const userMessage = 'Your passkey gives another key than before. Choose another way.'
      throw new DidAuthClientError(NO_PASSKEY, { userMessage })
    }
    const signature = secp256k1.sign(hash, key).toBytes('recovered')
    key.fill(0)
    return signature
  }
  return {
    id: `passkey ${rpId} ${passkeyId}`,
    address,
    async signMessage(text) {
      const prefixed = `\x19Ethereum Signed Message:\n${utf8(text).length}${text}`
      const [recovery = 0, ...signature] = await sign(keccak_256(prefixed))
      return `0x${bytesToHex(Uint8Array.of(...signature, 27 + recovery))}`
    },
    async credential(challenge, did) {
      const vc = {
        '@context': ['https://www.w3.org/2018/credentials/v1'],
        type: ['VerifiableCredential'],
        credentialSubject: { claims: [{ claimType: 'challenge', claimValue: challenge }] }
      }
      const encode = (part: object): string => encodeBase64url(utf8(JSON.stringify(part)))
      const content = `${encode({ alg: 'ES256K', typ: 'JWT' })}.${encode({ iss: did, vc })}`
      const signature = await sign(sha256(content))
      return `${content}.${encodeBase64url(signature.slice(1))}`
    }
  }
}

/** Computes the address of a private key, `0x` and 40 hex digits in lower case. */
function computeAddress(key: Uint8Array): string {
  return `0x${bytesToHex(keccak_256(secp256k1.getPublicKey(key, false).subarray(1))).slice(-40)}`
}

/**
 * Derives the private key of a passkey. It is the first block of 32 bytes in the output of HKDF-SHA256 that is a number
 * from 1 to n − 1, where n is the order of secp256k1. Only one secret in 2^128 needs more than the first block.
 *
 * @param prf - 32 bytes, which are overwritten with zeros
 * @param isKey - replaces the check of the range, for tests
 */
export function derivePrivateKey(
  prf: Uint8Array,
  rpId: string,
  isKey: (block: Uint8Array) => boolean = secp256k1.utils.isValidSecretKey
): Uint8Array {
  let [block, end] = [new Uint8Array(), 0]
  do {
    end += 32
    block = hkdf(sha256, prf, utf8(rpId), utf8('express-did-auth passkey 1'), end).slice(-32)
  } while (!isKey(block))
  prf.fill(0)
  return block
}
