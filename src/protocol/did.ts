import { DidAuthError } from '../errors.js'
import { hasEthrMethod } from './canonical-did.js'
import { addressOfPublicKey, type Curve } from './curve.js'
import { decodeHex } from './encoding.js'

export { canonicalDid, hasEthrMethod } from './canonical-did.js'

/** Maximum length of a DID, in ASCII characters. */
export const MAX_DID_LENGTH = 128

/** Maximum length of the DID of a machine. A `did:jwk` contains its key as JSON, in at least 150 characters. */
export const MAX_MACHINE_DID_LENGTH = 512

// W3C DID Core 1.0, section 3.1. The grammar ends with 1*idchar, so that the last character is not a colon.
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

/** Whether a value is a DID by the W3C grammar that a machine may have: at most {@link MAX_MACHINE_DID_LENGTH}. */
export function isMachineDid(value: unknown): value is string {
  return typeof value === 'string' && value.length <= MAX_MACHINE_DID_LENGTH && DID.test(value)
}

/** Parses a DID and returns it unchanged. @throws DidAuthError ERR_DID @see W3C DID Core 1.0, section 3.1 */
export function parseDid(value: unknown): string {
  if (isDid(value)) return value
  const expected = `a DID of at most ${MAX_DID_LENGTH} characters`
  throw new DidAuthError('ERR_DID', { reason: { check: 'did', expected, got: typeof value } })
}

/** A did:ethr, and the values that it contains. */
export interface EthrDid {
  /** The DID as received. */
  readonly did: string
  /** The DID in lower case, see {@link canonicalDid}. */
  readonly canonicalDid: string
  /** Address whose key controls the DID, lower case with `0x`. */
  readonly address: string
  /** Number of the network, see {@link chainIdOfDid}. */
  readonly chainId: number | undefined
}

/** Parses a did:ethr. @param curve - as for {@link addressOfDid} @throws DidAuthError ERR_DID_UNSUPPORTED as there */
export function parseEthrDid(did: string, curve?: Pick<Curve, 'decompress' | 'keccak256Hex'>): EthrDid {
  const [, network = '', address, compressedKey] = ETHR_DID.exec(did) ?? []
  const publicKey = compressedKey && curve?.decompress(decodeHex(compressedKey))
  const keyAddress = curve && publicKey ? addressOfPublicKey(curve, publicKey) : address?.toLowerCase()
  if (keyAddress !== undefined) {
    return { did, canonicalDid: did.toLowerCase(), address: keyAddress, chainId: findChainId(network) }
  }
  const expected = 'did:ethr:[network:]0x<40 hex>, or 0x02|03<64 hex> of a point on the curve'
  throw new DidAuthError('ERR_DID_UNSUPPORTED', { reason: { check: 'did', expected } })
}

/**
 * Returns the address whose key controls a did:ethr, lower case with `0x`. The DID contains the address, or a public
 * key from which it is computed.
 * @param curve - required only for a DID with a public key, which has to be decompressed
 * @throws DidAuthError ERR_DID_UNSUPPORTED unless the DID is `did:ethr:[network:]0x<40 hex>` or
 * `did:ethr:[network:]0x(02|03)<64 hex>`; also if its public key is no point of the curve, or `curve` is missing for it
 * @see ethr DID method specification, "Method Specific Identifier"
 */
export function addressOfDid(did: string, curve?: Pick<Curve, 'decompress' | 'keccak256Hex'>): string {
  return parseEthrDid(did, curve).address
}

/** Returns the did:ethr of an address. @param network - empty for Ethereum */
export function ethrDid(network: string, address: string): string {
  return `did:ethr:${network === '' ? '' : `${network}:`}${address}`
}

/** Returns the network in a did:ethr, empty for Ethereum; undefined for a DID of another method. */
export function networkOfDid(did: string): string | undefined {
  const ethr = ETHR_DID.exec(did)
  return ethr === null ? undefined : (ethr[1] ?? '')
}

/** Whether a DID has the form that {@link addressOfDid} accepts. Its public key may still be no point of the curve. */
export function isEthrDid(did: string): boolean {
  return ETHR_DID.test(did)
}

/** Whether a value can be the DID of a service. A did:ethr must contain a complete address or key. */
export function isKeyDid(value: unknown): value is string {
  return isDid(value) && (!hasEthrMethod(value) || isEthrDid(value))
}

/** Whether a value is a network of did:ethr: one or two names, or a hexadecimal chain id; empty for Ethereum. */
export function isEthrNetwork(value: unknown): value is string {
  if (typeof value !== 'string') return false
  const did = ethrDid(value, `0x${'0'.repeat(40)}`)
  return isDid(did) && isEthrDid(did)
}

/** Whether a value is a network of users' DIDs. Not `mainnet`: DIDs of Ethereum contain no network name. */
export function isUserNetwork(value: unknown): boolean {
  return isEthrNetwork(value) && value.toLowerCase() !== 'mainnet'
}

/** Returns the name of a network in DIDs: `ethereum` becomes `''`. */
export function toNetwork(name: string): string {
  return name.toLowerCase() === 'ethereum' ? '' : name
}

/**
 * Asserts that the network of a DID is accepted. Letter case is ignored.
 * @param networks - accepted names, empty for Ethereum; undefined accepts any DID
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
 * Returns the DID of a contract account. It contains the chain's number, never its name, because names are reserved for
 * keys. A dishonest node, or code to which an account delegates, can so never log in as the user of a key.
 */
export function toContractDid({ chainId, address }: { chainId: number; address: string }): string {
  return ethrDid(`0x${chainId.toString(16)}`, address)
}

/** Returns the number of a network in hexadecimal (`0x1e`, `0x01E`); undefined for a named network. */
export function findNetworkNumber(network: string | undefined): number | undefined {
  return network?.startsWith('0x') === true ? Number(network) : undefined
}

/** Returns the chain id of a did:ethr if its network is a number or a well-known name; else undefined. */
export function chainIdOfDid(did: string): number | undefined {
  return findChainId(networkOfDid(did) ?? '')
}

function findChainId(network: string): number | undefined {
  const name = network.toLowerCase()
  return findNetworkNumber(name) ?? CHAIN_IDS.get(name)
}
