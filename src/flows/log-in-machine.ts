import { DidAuthError } from '../errors.js'
import type { LoginIdentity } from '../ports.js'
import {
  createAssertionRefusal,
  findEs256kSigner,
  isEs256kSignature,
  MAX_ASSERTION_SECONDS,
  parseClientAssertion,
  type ClientAssertion
} from '../protocol/client-assertion.js'
import { canonicalDid, hasEthrMethod } from '../protocol/did.js'
import { encodeHex } from '../protocol/encoding.js'
import type { JsonObject } from '../protocol/json.js'
import { ALGORITHMS_BY_KIND, parseMachineKey } from '../protocol/machine-did.js'
import { consumeName } from './challenge-uses.js'
import { chargeMachine, chargeRefusal, chargeUser, type Caller } from './limits.js'
import type { LoginParts } from './parts.js'
import { isRefusal, runBusinessLogic } from './run-business-logic.js'
import { findResource, signResourceToken, type ResourceToken } from './tokens.js'
import { findControllers, identifyKeyUser } from './user.js'

/** The request of a machine for a token, and its sender. */
export interface MachineRequest {
  assertion: unknown
  /** DID that the request names in addition to the assertion. Undefined: none. */
  clientId: string | undefined
  /** URL of the other service. Undefined: the only one. */
  resource: string | undefined
  /** URL of the token endpoint as clients see it. */
  tokenUrl: string
  client: Caller
}

/** A machine whose assertion is signed by its key, and not consumed yet. */
interface ProvedMachine extends ClientAssertion {
  /** Address that signed. Undefined unless the DID is a did:ethr. */
  address: string | undefined
}

/** Codes that mean an invalid assertion. The client gets one code for all of them. */
const INVALID_ASSERTION: ReadonlySet<unknown> = new Set([
  'ERR_DID_UNSUPPORTED',
  'ERR_CHALLENGE_USED',
  'ERR_CHALLENGE_EXPIRED'
])

/**
 * Logs a machine in: verifies its assertion, consumes it, asks the business logic, and issues a token for a resource.
 * The quota of the DID is charged after the assertion is consumed, so that a recorded one cannot use it up.
 * @throws DidAuthError ERR_RESOURCE, ERR_CLIENT_ASSERTION, ERR_BUSINESS_LOGIC, ERR_TOO_MANY_REQUESTS, ERR_BUSY,
 * ERR_STORE, ERR_BUSINESS_LOGIC_TIMEOUT, ERR_INTERNAL; with `didControl: 'document'` ERR_RESOLVER
 * @see RFC 6749, section 4.4; RFC 7523, section 2.2; RFC 8707, section 2.2
 */
export async function logInMachine(parts: LoginParts, request: MachineRequest): Promise<ResourceToken> {
  const { settings, report } = parts
  const { client } = request
  // The list is public, and this check costs less than a signature.
  const aud = findResource(settings.resources, request.resource)
  const { did, address } = await admitMachine(parts, request)
  await chargeUser(parts, canonicalDid(did))
  const tokenClaims = await askLogic(parts, did, address)
  const token = await signResourceToken(parts, { ...tokenClaims, aud, sub: did, client_id: did })
  report?.({ type: 'login', machine: true, did, clientNetwork: client.network })
  return token
}

/** Verifies an assertion, charges the login, consumes the assertion. Invalid ones are charged as failed proofs. */
async function admitMachine(parts: LoginParts, request: MachineRequest): Promise<ProvedMachine> {
  const { client } = request
  let did: string | undefined
  try {
    const audiences = [parts.settings.serviceUrl, request.tokenUrl]
    const assertion = parseClientAssertion(request.assertion, { audiences, nowSeconds: parts.clock.nowSeconds() })
    ;({ did } = assertion)
    if (request.clientId !== undefined && request.clientId !== did) {
      throw createAssertionRefusal('client_id', 'the DID of the assertion')
    }
    const machine = await verifyMachine(parts, assertion, client)
    await chargeMachine(parts, client)
    const name = `jwt:${encodeHex(parts.curve.sha256(`${did}\n${machine.jti}`))}`
    await consumeName(parts, name, { exp: machine.exp, maxSeconds: MAX_ASSERTION_SECONDS })
    return machine
  } catch (thrown) {
    const error = toAssertionRefusal(thrown)
    await chargeRefusal(parts, { did, client }, error)
    throw error
  }
}

/** Verifies that a key of a DID signed. @throws DidAuthError ERR_CLIENT_ASSERTION, ERR_DID_UNSUPPORTED */
async function verifyMachine(parts: LoginParts, assertion: ClientAssertion, client: Caller): Promise<ProvedMachine> {
  const { settings, curve, scheduler } = parts
  const { did, alg } = assertion
  const subject = hasEthrMethod(did) ? identifyKeyUser(settings, curve, did) : parseMachineKey(did)
  const kind = 'kind' in subject ? subject.kind : 'secp256k1'
  const algorithms = ALGORITHMS_BY_KIND[kind]
  // The key decides on the algorithm. The header only has to agree.
  if (!algorithms.includes(alg)) throw createAssertionRefusal('alg', algorithms)
  if ('kind' in subject) {
    await scheduler.yield(client)
    const isSigned =
      kind === 'secp256k1'
        ? isEs256kSignature(curve, assertion, subject)
        : parts.verifyMachineSignature(did, subject, assertion.signingInput, assertion.signature)
    if (isSigned) return { ...assertion, address: undefined }
  } else {
    const controllers = await findControllers(parts, subject, client)
    await scheduler.yield(client)
    const address = findEs256kSigner(curve, assertion, controllers)
    if (address !== undefined) return { ...assertion, address }
  }
  throw createAssertionRefusal('signature', 'one by a key of the DID')
}

/** Asks the business logic. Every refusal has the same code. */
async function askLogic(parts: LoginParts, did: string, address: string | undefined): Promise<JsonObject | undefined> {
  const { authenticationBusinessLogic: logic } = parts.settings
  if (logic === undefined) return undefined
  const identity = { canonicalDid: canonicalDid(did), machine: true, ...(address !== undefined && { address }) }
  // The type promises an address, as for users: see `LoginIdentity`.
  const ask = (): unknown => logic(did, identity as LoginIdentity)
  return runBusinessLogic(parts, ask).catch((error: unknown) => {
    throw isRefusal(error) ? new DidAuthError('ERR_BUSINESS_LOGIC', { cause: error }) : error
  })
}

function toAssertionRefusal(error: unknown): unknown {
  if (!(error instanceof DidAuthError) || !INVALID_ASSERTION.has(error.code)) return error
  const isUsed = error.code === 'ERR_CHALLENGE_USED'
  return isUsed
    ? createAssertionRefusal('jti', 'one that was not used before')
    : new DidAuthError('ERR_CLIENT_ASSERTION', { cause: error, ...(error.reason && { reason: error.reason }) })
}
