import { Buffer } from 'node:buffer'
import { decodeBase64url, encodeBase64url } from './base64url.js'
import type { Curve } from './curve.js'
import { isInRange, isLowS, toLowS } from './ecdsa-signature.js'
import { isObject, type JsonObject } from './json.js'

/** A compact JWS whose parts are well formed. Nothing about it is proved yet. */
export interface ParsedJwt {
  header: Record<string, unknown>
  payload: Record<string, unknown>
  /** What the signature covers. */
  signingInput: string
  signature: Uint8Array
}

const ES256K_HEADER = encodeBase64url(JSON.stringify({ alg: 'ES256K', typ: 'JWT' }))
const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/**
 * Parses a compact JWT: three parts of canonical base64url, the first two JSON objects in UTF-8.
 *
 * The payload returned is the one that `signingInput` carries, never another copy of it.
 *
 * @param maxBytes - a longer string is refused unread
 * @returns undefined for anything else
 * @see RFC 7515, section 7.1
 */
export function parseJwt(jwt: unknown, maxBytes: number): ParsedJwt | undefined {
  if (typeof jwt !== 'string' || jwt.length > maxBytes) return undefined
  const [headerPart, payloadPart, signaturePart, fourthPart] = jwt.split('.', 4)
  if (headerPart === undefined || payloadPart === undefined || signaturePart === undefined) return undefined
  if (fourthPart !== undefined) return undefined
  const header = parseJsonPart(headerPart)
  const payload = parseJsonPart(payloadPart)
  const signature = decodeBase64url(signaturePart)
  if (header === undefined || payload === undefined || signature === undefined) return undefined
  return { header, payload, signature, signingInput: jwt.slice(0, headerPart.length + 1 + payloadPart.length) }
}

function parseJsonPart(part: string): Record<string, unknown> | undefined {
  const bytes = decodeBase64url(part)
  if (bytes === undefined) return undefined
  try {
    const value: unknown = JSON.parse(UTF_8.decode(bytes))
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Whether a header is exactly ours: ES256K, `typ` JWT or absent, no other field. */
export function isPlainEs256kHeader(header: Record<string, unknown>): boolean {
  return (
    header.alg === 'ES256K' && Object.entries(header).every(([k, v]) => k === 'alg' || (k === 'typ' && v === 'JWT'))
  )
}

/**
 * Whether a public key made an ES256K signature, in its low-s spelling.
 *
 * @see RFC 8812, section 3.2
 */
export function isSignedBy(curve: Pick<Curve, 'sha256' | 'verify'>, jwt: ParsedJwt, publicKey: Uint8Array): boolean {
  return (
    jwt.signature.length === 64 &&
    isInRange(jwt.signature) &&
    isLowS(jwt.signature) &&
    curve.verify(curve.sha256(jwt.signingInput), jwt.signature, publicKey)
  )
}

/** Signs a payload as ES256K JWT. `sign` returns 64 bytes over its argument. */
export async function signJwt(payload: JsonObject, sign: (data: string) => Promise<Uint8Array>): Promise<string> {
  const signingInput = `${ES256K_HEADER}.${encodeBase64url(JSON.stringify(payload))}`
  return `${signingInput}.${encodeBase64url(await sign(signingInput))}`
}

/**
 * The 64 bytes, with low s, of what a did-jwt ES256K signer returns: base64url of 64 or 65 bytes, or r and s in
 * hexadecimal.
 *
 * @returns undefined for anything else
 * @see did-jwt, type `Signer`
 */
export function parseSignerOutput(output: unknown): Uint8Array | undefined {
  const bytes = typeof output === 'string' ? Buffer.from(output, 'base64url') : parseEcdsaSignature(output)
  if (bytes === undefined || (bytes.length !== 64 && bytes.length !== 65)) return undefined
  const signature = bytes.subarray(0, 64)
  return isInRange(signature) ? toLowS(signature) : undefined
}

function parseEcdsaSignature(output: unknown): Buffer | undefined {
  if (!isObject(output) || !isHex32(output.r) || !isHex32(output.s)) return undefined
  return Buffer.from([output.r, output.s].map((half) => half.replace(/^0x/, '').padStart(64, '0')).join(''), 'hex')
}

function isHex32(value: unknown): value is string {
  return typeof value === 'string' && /^(?:0x)?[0-9a-fA-F]{1,64}$/.test(value)
}
