import { DidAuthError } from '../errors.js'
import { readField, isObject } from './json.js'
import type { VerifiedCredential } from './credential.js'

/** Maximum number of claims in a sign up. */
const MAX_CLAIMS = 50
/** Maximum length of each text of a claim, in characters. */
const MAX_CLAIM_LENGTH = 4096

/** A claim without a credential, as a service requests it or as a user states it. @see specification, "Claim" */
export interface Claim {
  /** Name of the claim, such as `email`. */
  claimType: string
  /** Value that the user states; empty in a request. */
  claimValue: string
  /** Reason for the request, as shown to the user. */
  reason?: string
  /** Whether the sign up needs the claim: if it is absent, the response lists it as missing. */
  essential?: boolean
}

/** Credentials and claims that a service requests at sign up. */
export interface RequiredDisclosure {
  /** Names of credential schemas. Credentials are verified; `trustedIssuers` or business logic decides on issuers. */
  credentials: readonly string[]
  /** Requested claims. Their values are unverified and unsigned: see {@link SelectiveDisclosureResponse}. */
  claims: readonly Claim[]
}

/** Disclosed data that business logic receives at sign up. */
export interface SelectiveDisclosureResponse {
  /** The user's DID, as received. */
  issuer: string
  /** The service's DID. */
  subject: string
  /**
   * Unverified claims. No signed message contains them, so that an attacker who can change the request can change them.
   * Do not rely on them.
   */
  claims: Claim[]
  /** Verified credentials: signature, dates and issuer. If a credential names a subject, that is the user. */
  credentials: VerifiedCredential[]
  /** Requested but absent: names of schemas, and types of essential claims. */
  missing: { credentials: string[]; claims: string[] }
}

/**
 * Parses the claims of a sign up; an absent value means none.
 * @throws DidAuthError ERR_REQUEST, also for too many or too long claims
 */
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

/** Whether a value has the fields of a claim. It does not check their length. */
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

/** Returns the requested schemas that no credential has, and the types of absent essential claims. */
export function findMissing(
  disclosed: Pick<SelectiveDisclosureResponse, 'claims' | 'credentials'>,
  required: RequiredDisclosure
): SelectiveDisclosureResponse['missing'] {
  const schemas = new Set(disclosed.credentials.flatMap(listSchemas))
  const claimTypes = new Set(disclosed.claims.map((claim) => claim.claimType))
  return {
    credentials: required.credentials.filter((name) => !schemas.has(name)),
    claims: required.claims
      .filter((claim) => claim.essential === true && !claimTypes.has(claim.claimType))
      .map((claim) => claim.claimType)
  }
}

/** Lists the schema names of a credential: its types, and the last segment of each `credentialSchema.id`. */
function listSchemas(credential: VerifiedCredential): string[] {
  const ids = [credential.vc.credentialSchema].flat().flatMap((schema) => {
    const id = isObject(schema) ? schema.id : undefined
    return typeof id === 'string' ? [id.slice(id.lastIndexOf('/') + 1)] : []
  })
  return [...credential.type, ...ids]
}
