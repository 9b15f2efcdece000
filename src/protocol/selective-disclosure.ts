import { DidAuthError } from '../errors.js'
import { readField, isObject } from './json.js'
import type { VerifiedCredential } from './credential.js'

/** Claims that a sign up may carry, and characters that each of its texts may have. */
const MAX_CLAIMS = 50
const MAX_CLAIM_LENGTH = 4096

/** A claim that need not belong to a credential. @see specification, "Claim" */
export interface Claim {
  claimType: string
  claimValue: string
  reason?: string
  essential?: boolean
}

/** Credentials and claims that a service requests of a user at sign up. */
export interface RequiredDisclosure {
  /** Names of credential schemas. Credentials are verified; `trustedIssuers` or business logic judges their issuer. */
  credentials: readonly string[]
  /** Requested claims. Their values are unverified and unsigned: see {@link SelectiveDisclosureResponse}. */
  claims: readonly Claim[]
}

/** The argument of business logic at sign up. */
export interface SelectiveDisclosureResponse {
  /** The user's DID, as received. */
  issuer: string
  /** The service's DID. */
  subject: string
  /**
   * Unverified, and in no signed message: an attacker who can change the request on its way can change them. Do not
   * rely on them.
   */
  claims: Claim[]
  /** Verified: signature, dates, issuer, and the user as subject where a subject is named. */
  credentials: VerifiedCredential[]
  /** Requested and absent: names of schemas and types of essential claims. */
  missing: { credentials: string[]; claims: string[] }
}

/** Parses the claims of a sign up; absent is none. @throws DidAuthError ERR_REQUEST for too many or too long ones */
export function parseClaims(value: unknown): Claim[] {
  if (value === undefined) return []
  if (!Array.isArray(value) || value.length > MAX_CLAIMS) throw createClaimsRefusal()
  return value.map(parseClaim)
}

function parseClaim(value: unknown): Claim {
  if (!isClaim(value)) throw createClaimsRefusal()
  const { claimType, claimValue, reason, essential } = value
  if ([claimType, claimValue, reason ?? ''].some(({ length }) => length > MAX_CLAIM_LENGTH)) throw createClaimsRefusal()
  const optional = { ...(reason !== undefined && { reason }), ...(essential !== undefined && { essential }) }
  return { claimType, claimValue, ...optional }
}

/** Whether a value has the fields of a claim, however long. */
export function isClaim(value: unknown): value is Claim {
  const [type, text, reason, essential] = ['claimType', 'claimValue', 'reason', 'essential'].map((name) =>
    readField(value, name)
  )
  return (
    typeof type === 'string' &&
    typeof text === 'string' &&
    (reason === undefined || typeof reason === 'string') &&
    (essential === undefined || typeof essential === 'boolean')
  )
}

function createClaimsRefusal(): DidAuthError {
  const expected = `an array of at most ${String(MAX_CLAIMS)} { claimType, claimValue, reason?, essential? }`
  return new DidAuthError('ERR_REQUEST', { reason: { check: 'claims', expected } })
}

/** Returns the requested schemas that no credential implements, and the essential claims that are absent. */
export function findMissing(
  given: Pick<SelectiveDisclosureResponse, 'claims' | 'credentials'>,
  required: RequiredDisclosure
): SelectiveDisclosureResponse['missing'] {
  const schemas = new Set(given.credentials.flatMap(listSchemas))
  const claimTypes = new Set(given.claims.map((claim) => claim.claimType))
  return {
    credentials: required.credentials.filter((name) => !schemas.has(name)),
    claims: required.claims
      .filter((claim) => claim.essential === true && !claimTypes.has(claim.claimType))
      .map((claim) => claim.claimType)
  }
}

/** Lists the schema names of a credential: its types and the last segment of each `credentialSchema.id`. */
function listSchemas(credential: VerifiedCredential): string[] {
  const ids = [credential.vc.credentialSchema].flat().flatMap((schema) => {
    const id = isObject(schema) ? schema.id : undefined
    return typeof id === 'string' ? [id.slice(id.lastIndexOf('/') + 1)] : []
  })
  return [...credential.type, ...ids]
}
