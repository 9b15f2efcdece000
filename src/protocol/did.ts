import { DidAuthError } from '../errors.js'
import { addressOfPublicKey, type Curve } from './curve.js'
import { decodeHex } from './encoding.js'

/** The longest DID that is accepted anywhere, in ASCII characters. */
export const MAX_DID_LENGTH = 128

// W3C DID Core 1.0, section 3.1. The last character is not a colon, because the grammar ends with 1*idchar.
const DID = /^did:[a-z0-9]+:(?:[A-Za-z0-9._:-]|%[0-9A-Fa-f]{2})*(?:[A-Za-z0-9._-]|%[0-9A-Fa-f]{2})$/

// An optional network (one or two name segments, or a chain id in hexadecimal), then an address or a compressed key.
const ETHR_DID =
  /^did:ethr:(?:((?:[A-Za-z][A-Za-z0-9_-]*)(?::[A-Za-z][A-Za-z0-9_-]*)?|0x[0-9a-fA-F]{1,16}):)?(?:(0[xX][0-9a-fA-F]{40})|0[xX](0[23][0-9a-fA-F]{64}))$/

const CHAIN_IDS = new Map([
  ['', 1],
  ['mainnet', 1],
  ['rsk', 30],
  ['rsk:testnet', 31]
])

/** Whether a value is a DID by the W3C grammar, of at most {@link MAX_DID_LENGTH} characters. */
export function isDid(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_DID_LENGTH && DID.test(value)
}

/** @returns the DID exactly as received @throws DidAuthError ERR_DID @see W3C DID Core 1.0, section 3.1 */
export function parseDid(value: unknown): string {
  if (isDid(value)) return value
  const expected = `a DID of at most ${MAX_DID_LENGTH} characters`
  throw new DidAuthError('ERR_DID', { reason: { check: 'did', expected, got: typeof value } })
}

/** Returns the spelling under which users are stored: lower case, so that a checksum does not make another user. */
export function canonicalDid(did: string): string {
  return did.toLowerCase()
}

/**
 * The address whose key proves control of a DID, lower case with `0x`: the one in it, or that of the public key in it.
 * @param curve - needed for a public key, which has to be decompressed; not for an address
 * @throws DidAuthError ERR_DID_UNSUPPORTED when the DID is not `did:ethr:[network:]0x<40 hex>` or
 * `did:ethr:[network:]0x(02|03)<64 hex>`, or its public key is no point of the curve, or there is no `curve` for it
 * @see ethr DID method specification, "Method Specific Identifier"
 */
export function addressOfDid(did: string, curve?: Pick<Curve, 'decompress' | 'keccak256Hex'>): string {
  const [, , address, compressedKey] = ETHR_DID.exec(did) ?? []
  if (address !== undefined) return address.toLowerCase()
  const publicKey = compressedKey && curve?.decompress(decodeHex(compressedKey))
  if (curve === undefined || !publicKey) {
    const expected = 'did:ethr:[network:]0x<40 hex>, or 0x02|03<64 hex> of a point on the curve'
    throw new DidAuthError('ERR_DID_UNSUPPORTED', { reason: { check: 'did', expected } })
  }
  return addressOfPublicKey(curve, publicKey)
}

/** Returns the did:ethr of an address. @param network - empty for Ethereum */
export function ethrDid(network: string, address: string): string {
  return `did:ethr:${network === '' ? '' : `${network}:`}${address}`
}

/** Returns the network that a did:ethr names, empty for Ethereum; undefined for a DID of another method. */
export function networkOfDid(did: string): string | undefined {
  const ethr = ETHR_DID.exec(did)
  return ethr === null ? undefined : (ethr[1] ?? '')
}

/** Whether a DID has the form that {@link addressOfDid} knows: an address, or a public key on the curve or not. */
export function isEthrDid(did: string): boolean {
  return ETHR_DID.test(did)
}

/** Whether a value is a DID that can be a service's: one of did:ethr is complete, so that its key is known. */
export function isKeyDid(value: unknown): value is string {
  return isDid(value) && (!value.startsWith('did:ethr:') || isEthrDid(value))
}

/** Whether a value is the network of a did:ethr: one or two names, a chain id in hexadecimal, empty for Ethereum. */
export function isEthrNetwork(value: unknown): value is string {
  if (typeof value !== 'string') return false
  const did = ethrDid(value, `0x${'0'.repeat(40)}`)
  return isDid(did) && isEthrDid(did)
}

/**
 * Asserts that a DID is of an accepted network. Names count in any letter case, as in the canonical DID.
 * @param networks - accepted names, empty for Ethereum; undefined: any DID passes
 * @throws DidAuthError ERR_DID_UNSUPPORTED
 */
export function assertNetwork(did: string, networks: readonly string[] | undefined): void {
  if (networks === undefined) return
  const network = networkOfDid(did)?.toLowerCase()
  if (networks.some((name) => name.toLowerCase() === network)) return
  const reason = { check: 'network', expected: networks, got: network ?? 'another method', option: 'networks' }
  throw new DidAuthError('ERR_DID_UNSUPPORTED', { reason })
}

/**
 * Returns the DID of a contract account: the chain's number, never its name. Names belong to keys, so that neither a
 * node that lies nor code that an account delegates to is ever a key's user.
 */
export function toContractDid({ chainId, address }: { chainId: number; address: string }): string {
  return ethrDid(`0x${chainId.toString(16)}`, address)
}

/** Returns the number of the chain that a network names by number (`0x1e`, `0x01E`), else undefined. */
export function findNetworkNumber(network: string | undefined): number | undefined {
  return network?.startsWith('0x') === true ? Number(network) : undefined
}

/** Returns the chain id that a did:ethr names, where it is known without a network. */
export function chainIdOfDid(did: string): number | undefined {
  const network = networkOfDid(did)?.toLowerCase() ?? ''
  return findNetworkNumber(network) ?? CHAIN_IDS.get(network)
}
