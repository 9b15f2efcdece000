import { ecdsa, weierstrassN } from '@noble/curves/abstract/weierstrass.js'
import { hkdf } from '@noble/hashes/hkdf.js'
import { sha256 } from '@noble/hashes/sha2.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { bytesToHex } from '@noble/hashes/utils.js'
import { askPasskey } from '../ask-passkey.js'
import { decodeBase64url, encodeBase64url, utf8 } from '../seal.js'
import { pause } from '../timing.js'
import type { PlainWallet } from '../wallet.js'

/** Curve without the kilobyte of code that makes verifying faster. @see SEC 2, section 2.4.1 */
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
/** Time for which the key of the first prompt waits for the first signature. */
const KEPT_SECONDS = 60

/** Owner of the passkey: the page's host, or a domain above it. **The DID belongs to this domain.** */
export interface PasskeyOptions {
  readonly rpId: string
}

/**
 * A wallet whose key is computed from a passkey, and lost with it. The first signature within a minute needs no prompt;
 * each other one asks the passkey again, and throws `USER_REJECTED` or `WALLET` where it is refused.
 */
export interface PasskeyWallet extends PlainWallet {
  signMessage(text: string): Promise<string>
  /** `credential` of `RelayClient`: the ES256K credential of its login. */
  credential(challenge: string, did: string): Promise<string>
}

/**
 * Makes a passkey, which the user confirms, and a wallet of it. A second prompt follows where a passkey computes no
 * secret while it is made.
 *
 * @param options - `userName` is what the list of passkeys shows
 * @throws DidAuthClientError NO_PASSKEY where there is no extension PRF; its `userMessage` says it where that shows too
 * late, and the new passkey stays. USER_REJECTED, WALLET
 * @example
 * const wallet = await createPasskey({ rpId: location.hostname, userName: 'Ada' })
 * await auth.logIn({ wallet })
 */
export function createPasskey(options: PasskeyOptions & { readonly userName: string }): Promise<PasskeyWallet> {
  return createPasskeyWallet(options)
}

/** Opens the wallet of a passkey that the user has, and chooses in one prompt. @throws as {@link createPasskey} does */
export function openPasskey({ rpId }: PasskeyOptions): Promise<PasskeyWallet> {
  return createPasskeyWallet({ rpId })
}

async function createPasskeyWallet(options: PasskeyOptions & { readonly userName?: string }): Promise<PasskeyWallet> {
  const { rpId } = options
  const { id, secret } = await askPasskey({ ...options, context: CONTEXT })
  const passkeyId = encodeBase64url(new Uint8Array(id))
  let kept: Uint8Array | undefined = derivePrivateKey(secret, rpId)
  const address = `0x${bytesToHex(keccak_256(secp256k1.getPublicKey(kept, false).subarray(1))).slice(-40)}`
  void pause(KEPT_SECONDS).then(() => {
    kept?.fill(0)
    kept = undefined
  })
  return passkeyWallet({ rpId, passkeyId, address }, () => {
    const key = kept
    kept = undefined
    return key
  })
}

/**
 * Returns the wallet of a passkey that was opened before.
 *
 * @param passkey - `passkeyId` is the passkey's own id in base64url
 * @param takeKey - returns the private key once, while it is in memory; else the passkey is asked
 */
export function passkeyWallet(
  { rpId, passkeyId, address }: PasskeyOptions & { readonly passkeyId: string; readonly address: string },
  takeKey = (): Uint8Array | undefined => undefined
): PasskeyWallet {
  /** Returns the recovery, r and s. */
  const sign = async (hash: Uint8Array): Promise<Uint8Array> => {
    const question = { rpId, id: decodeBase64url(passkeyId).buffer, context: CONTEXT }
    const key = takeKey() ?? derivePrivateKey((await askPasskey(question)).secret, rpId)
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

/**
 * The private key of a passkey: of the output of HKDF-SHA256, the first block of 32 bytes that is a number from 1 to
 * n − 1, n being the order of secp256k1. That is the first block for all but one secret in 2^128.
 *
 * @param prf - 32 bytes, which are wiped
 * @param isKey - in place of the range, for tests
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
