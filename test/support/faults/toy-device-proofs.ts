import { createHash, createPublicKey, verify, type JsonWebKey } from 'node:crypto'
import type { Request, Response } from 'express'

/** Faults of the verification of device proofs. */
export type DeviceFault =
  | 'proof ignored at login'
  | 'binding forgotten at refresh'
  | 'refresh from any device'
  | 'proof that is not verified'
  | 'proof for any path'
  | 'proof for any method'
  | 'proof without nonce'
  | 'new nonce never sent'

const NONCE = 'toy-nonce'

const decode = (part = ''): Record<string, unknown> => JSON.parse(Buffer.from(part, 'base64url').toString()) as never

/**
 * Verifies the device proof of a request, independently of the code under test.
 *
 * @returns thumbprint of the key; `nonce` if the proof needs one; undefined if the proof is absent or invalid
 */
export function verifyToyProof(req: Request, origin: string, fault: string | undefined): string | undefined {
  try {
    const [header = '', payload = '', signature = ''] = (req.get('dpop') ?? '').split('.')
    const { typ, jwk } = decode(header)
    const { htm, htu, nonce } = decode(payload)
    const { crv, kty, x, y } = jwk as Record<string, string>
    const key = createPublicKey({ key: jwk as JsonWebKey, format: 'jwk' })
    const signed = Buffer.from(`${header}.${payload}`)
    const settings = { key, dsaEncoding: 'ieee-p1363' } as const
    const isSigned = verify('sha256', signed, settings, Buffer.from(signature, 'base64url'))
    const isPath = htu === origin + req.path || fault === 'proof for any path'
    const isMethod = htm === req.method || fault === 'proof for any method'
    if (typ !== 'dpop+jwt' || !isPath || !isMethod) return undefined
    if (!isSigned && fault !== 'proof that is not verified') return undefined
    if (nonce !== NONCE && fault !== 'proof without nonce') return 'nonce'
    return createHash('sha256').update(JSON.stringify({ crv, kty, x, y })).digest('base64url')
  } catch {
    return undefined
  }
}

/** Sends the nonce with a response. */
export function sendToyNonce(res: Response, fault: string | undefined): void {
  if (fault !== 'new nonce never sent') res.set('DPoP-Nonce', NONCE)
}
