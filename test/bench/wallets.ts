import { createHash, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import type { ResourceKey } from 'express-did-auth'
import sha3 from 'js-sha3'
import secp256k1 from 'secp256k1'

export const SERVICE_KEY = '77'.repeat(32)
export const SERVICE_URL = 'https://bench.example'
/** Service for which tokens are issued. */
export const RESOURCE = 'https://resource.example'

/** Creates the private key of a device, P-256 as JWK. */
export function createDeviceKey(): Required<ResourceKey> {
  return generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({
    format: 'jwk'
  }) as Required<ResourceKey>
}

/** Wallet with native signatures. ethers takes a millisecond per signature, and would dominate the measurement. */
export interface BenchWallet {
  did: string
  address: string
  personalSign(message: string): string
}

export function createBenchWallet(number: number): BenchWallet {
  return createWalletOfKey(Buffer.from(number.toString(16).padStart(64, '0'), 'hex'))
}

/** Number of the next unused wallet. It starts at random, so that no other process uses the same wallets. */
let walletNumber = 1_000_000 + Math.floor(Math.random() * 1e12)
export const createFreshWallet = (): BenchWallet => createBenchWallet(walletNumber++)
export const createFreshWallets = (count: number): BenchWallet[] => Array.from({ length: count }, createFreshWallet)

function createWalletOfKey(privateKey: Uint8Array): BenchWallet {
  const publicKey = secp256k1.publicKeyCreate(privateKey, false)
  const address = `0x${sha3.keccak256(publicKey.subarray(1)).slice(-40)}`
  return {
    did: `did:ethr:rsk:${address}`,
    address,
    personalSign(message) {
      const hash = sha3.keccak256.array(`\x19Ethereum Signed Message:\n${Buffer.byteLength(message)}${message}`)
      const { signature, recid } = secp256k1.ecdsaSign(Uint8Array.from(hash), privateKey)
      return `0x${Buffer.from(signature).toString('hex')}${(27 + recid).toString(16)}`
    }
  }
}

/** Issues valid access tokens that the server has not cached, like another instance with the same key. */
export function mintTokens(count: number): string[] {
  const privateKey = Buffer.from(SERVICE_KEY, 'hex')
  const header = Buffer.from('{"alg":"ES256K","typ":"JWT"}').toString('base64url')
  const [iss, sub, iat] = [createWalletOfKey(privateKey).did, createBenchWallet(1).did, Math.floor(Date.now() / 1000)]
  return Array.from({ length: count }, () => {
    const id = randomBytes(16).toString('base64url')
    const payload = { iss, aud: SERVICE_URL, sub, exp: iat + 600, nbf: iat, iat, jti: id, sid: id, use: 'access' }
    const input = `${header}.${Buffer.from(JSON.stringify(payload)).toString('base64url')}`
    const { signature } = secp256k1.ecdsaSign(createHash('sha256').update(input).digest(), privateKey)
    return `${input}.${Buffer.from(signature).toString('base64url')}`
  })
}

/** Creates the forms of requests for tokens: of this many machines with a did:jwk, each form with a new assertion. */
export function createMachineForms(count: number, machineCount: number): string[] {
  const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const machines = Array.from({ length: machineCount }, () => {
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
    return { privateKey, did: `did:jwk:${encode(publicKey.export({ format: 'jwk' }))}` }
  })
  const exp = Math.floor(Date.now() / 1000) + 300
  return Array.from({ length: count }, (_, index) => {
    const { privateKey, did } = machines[index % machineCount]!
    const jti = randomBytes(16).toString('base64url')
    const input = `${encode({ alg: 'ES256' })}.${encode({ iss: did, sub: did, aud: SERVICE_URL, jti, exp })}`
    const signature = sign('sha256', Buffer.from(input), { key: privateKey, dsaEncoding: 'ieee-p1363' })
    return new URLSearchParams({
      grant_type: 'client_credentials',
      resource: RESOURCE,
      client_assertion_type: 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
      client_assertion: `${input}.${signature.toString('base64url')}`
    }).toString()
  })
}
