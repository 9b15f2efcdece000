import { DidAuthError } from '../errors.js'
import type { AuthenticatedUser, Client } from '../ports.js'
import { assertProvesRequest, computeThumbprint, computeTokenHash } from '../protocol/device-proof.js'
import { createProofRefusal, findBoundKey, parseDeviceProof, type ProvedRequest } from '../protocol/device-proof.js'
import type { JsonObject } from '../protocol/json.js'
import { chargeDeviceProof } from './limits.js'
import { issueNonce, verifyNonce } from './nonces.js'
import type { Parts } from './parts.js'

/** The device proof of a request, not yet verified, and the request that it has to name. */
export interface PresentedProof extends ProvedRequest {
  /** Value of the header `DPoP`. */
  proof: unknown
}

/** Reads the device proof of a request; undefined if it has none. Called only where a proof counts. */
type ReadDeviceProof = () => PresentedProof | undefined

/** A session that may be bound, with the claims of its access tokens. */
export interface BoundSession {
  did: string
  sessionId: string
  claims: Readonly<Record<string, unknown>> | undefined
}

type ProofParts = Pick<Parts, 'settings' | 'clock' | 'random' | 'curve' | 'verifyDeviceSignature'>

/**
 * Returns the claims that bind a new session to the key of the login's device proof; undefined if the login binds no
 * session.
 * @throws DidAuthError ERR_DEVICE_PROOF for an invalid proof, or if `deviceBinding` is `required` and there is none;
 * ERR_DEVICE_NONCE
 */
export function bindToDevice(parts: ProofParts, readProof: ReadDeviceProof): JsonObject | undefined {
  const { mode } = parts.settings.deviceBinding
  if (mode === 'off') return undefined
  const presented = readProof()
  if (mode === 'accepted' && presented === undefined) return undefined
  return { cnf: { jkt: verifyDeviceProof(parts, presented) } }
}

/**
 * Asserts that a refresh of a bound session, or its request for a resource token, comes from its device. A refused
 * proof changes nothing: it is charged to the session, and reported. The device itself can still refresh.
 * @param accessToken - the token that the request presents, if the proof has to name one
 * @throws DidAuthError ERR_DEVICE_PROOF, ERR_DEVICE_NONCE, ERR_TOO_MANY_REQUESTS after many refused proofs, ERR_STORE
 */
export async function assertBoundDevice(
  parts: ProofParts & Pick<Parts, 'store' | 'quotas' | 'report'>,
  { did, sessionId, claims }: BoundSession,
  readProof: ReadDeviceProof,
  client: Client,
  accessToken?: string
): Promise<void> {
  const boundKey = findBoundKey(claims)
  if (boundKey === undefined) return
  try {
    assertKey(boundKey, verifyDeviceProof(parts, readProof(), accessToken))
  } catch (error) {
    if (error instanceof DidAuthError && error.code === 'ERR_DEVICE_PROOF') {
      await chargeDeviceProof(parts, sessionId)
      parts.report?.({ type: 'device-mismatch', did, sessionId, clientNetwork: client.network })
    }
    throw error
  }
}

/**
 * Asserts that the device of a bound session made this request with its access token.
 * @throws DidAuthError ERR_DEVICE_PROOF, also for a token of a session that is not bound; ERR_DEVICE_NONCE
 */
export function assertRequestOfDevice(
  parts: ProofParts,
  { claims }: AuthenticatedUser,
  presented: PresentedProof | undefined,
  accessToken: string | undefined
): void {
  const boundKey = findBoundKey(claims)
  if (boundKey === undefined || accessToken === undefined)
    throw createProofRefusal('cnf', 'a token of a session that is bound to a device')
  assertKey(boundKey, verifyDeviceProof(parts, presented, accessToken))
}

/**
 * Verifies a device proof: its form, request, nonce, access token and signature, in this order.
 * @param accessToken - the token that the request presents, if the proof has to name one
 * @returns thumbprint of the device's key
 * @throws DidAuthError ERR_DEVICE_PROOF; ERR_DEVICE_NONCE, with a new nonce, if the nonce is absent, foreign or expired
 * @see RFC 9449, section 4.3
 */
function verifyDeviceProof(parts: ProofParts, presented: PresentedProof | undefined, accessToken?: string): string {
  if (presented === undefined) {
    const reason = { check: 'DPoP', expected: 'a proof of the device' }
    // A client without a nonce needs one for the proof that is missing.
    throw new DidAuthError('ERR_DEVICE_PROOF', { reason, details: createNonceDetails(parts) })
  }
  const { curve, verifyDeviceSignature } = parts
  const proof = parseDeviceProof(presented.proof)
  assertProvesRequest(proof, presented)
  assertNonce(parts, proof.nonce)
  if (accessToken !== undefined && proof.ath !== computeTokenHash(curve, accessToken)) {
    throw createProofRefusal('ath', 'the hash of the access token')
  }
  if (!verifyDeviceSignature(proof.key, proof.signingInput, proof.signature)) {
    throw createProofRefusal('signature', 'one of the key in the header')
  }
  return computeThumbprint(curve, proof.key)
}

function assertNonce(parts: ProofParts, nonce: string | undefined): void {
  const { deviceBinding } = parts.settings
  try {
    verifyNonce(parts, deviceBinding, nonce ?? '')
  } catch (error) {
    const reason = { check: 'nonce', expected: 'a nonce of this service that has not expired' }
    throw new DidAuthError('ERR_DEVICE_NONCE', { cause: error, reason, details: createNonceDetails(parts) })
  }
}

/** Returns a new nonce as details of an error, which its answer also has as a header. */
function createNonceDetails(parts: ProofParts): { nonce: string } {
  return { nonce: issueNonce(parts, parts.settings.deviceBinding).nonce }
}

function assertKey(boundKey: string, thumbprint: string): void {
  if (thumbprint !== boundKey) throw createProofRefusal('jkt', 'the key of the session')
}
