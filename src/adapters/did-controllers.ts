import { DidAuthError } from '../errors.js'
import type { Clock, Curve, DidControllers } from '../ports.js'
import { addressOfPublicKey } from '../protocol/curve.js'
import { bytesOfHex } from '../protocol/encoding.js'
import { cachedIssuerKeys, type LoadableDidResolver } from './cached-issuer-keys.js'
import { isSecp256k1Key, type IssuerKey } from './issuer-key.js'

/** Bytes of a compressed key, in hexadecimal digits. */
const COMPRESSED_LENGTH = 66

/** Controllers by the DID document, with the bounds of {@link cachedIssuerKeys}, such as 3 s, and kept for 60 s. */
export function documentControllers(
  { clock, curve }: { clock: Clock; curve: Curve },
  resolver: LoadableDidResolver
): DidControllers {
  const documents = cachedIssuerKeys(clock, resolver, 'authentication')
  return {
    async of(did, client) {
      try {
        const keys = await documents.keysOf(did, client)
        return new Set(keys.flatMap((key) => addressOf(curve, key) ?? []))
      } catch (error) {
        if (!(error instanceof DidAuthError) || error.code !== 'ERR_CREDENTIAL_ISSUER') throw error
        const expected = 'a document with keys under authentication'
        const reason = { check: 'document', expected, option: 'didControl' }
        throw new DidAuthError('ERR_DID_UNSUPPORTED', { cause: error.cause, reason })
      }
    }
  }
}

function addressOf(curve: Curve, key: IssuerKey): string | undefined {
  if (key.kind === 'address') return `0x${key.hex}`
  if (!isSecp256k1Key(key)) return undefined
  const bytes = bytesOfHex(key.hex)
  const publicKey = key.hex.length === COMPRESSED_LENGTH ? curve.decompress(bytes) : bytes
  return publicKey && addressOfPublicKey(curve, publicKey)
}
