import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { DidAuthError, loadCurve, type Clock, type Curve } from 'express-did-auth'
import {
  acceptedLoginDomains,
  addressOfDid,
  assertInForce,
  assertNetwork,
  canonicalDid,
  chainIdOfDid,
  isDid,
  isEthrDid,
  loginMessage,
  MAX_LOGIN_DOMAINS,
  parseSignature,
  recoverPersonalSigner,
  signerAddresses,
  type LoginDialect
} from 'express-did-auth/protocol'
import {
  readBearerToken,
  charge,
  chargeUser,
  consumeOnce,
  curveWithPreviousKeys,
  createResourceIssuer,
  createServiceQuotas,
  hasTokenScheme,
  readHeaderToken,
  limitStoreTime,
  optionDefaults,
  type Caller
} from 'express-did-auth/server-kit'
import { LRUCache } from 'lru-cache'
import type { Identity } from '../config/service-identity.js'
import { StartError } from '../config/startup-error.js'
import type { ServerAppParts } from '../http/create-app.js'
import { deriveChallengeSecret, findTrustedIssuer, getMaxRequests } from '../http/did-auth.js'
import { ServerError } from '../http/server-error.js'
import { issueRelayToken, parseLoginCredential, verifyRelayToken } from './relay-credentials.js'
import type { RelaySigner, RelayTokenClaims } from './relay-credentials.js'

/** About 1 KB each. */
const MAX_VERIFIED_TOKENS = 10_000
/** About 500 bytes each. */
const MAX_LAST_CHALLENGES = 10_000
const RANDOM_BYTES = 32
const SLOT_SECONDS = 10
/** Number of earlier time slots whose challenges are still valid. */
const VALID_SLOTS = 30
/** Minimum validity of a challenge in seconds. */
export const RELAY_CHALLENGE_SECONDS = VALID_SLOTS * SLOT_SECONDS
const CHALLENGE = /^[0-9a-f]{128}$/
const RELAY_TOKEN_HEADER = /^(?:DIDAuth +)?([^ ]+)$/i

/** Parts of the relay's login. */
export interface RelayAuthParts extends Pick<
  ServerAppParts,
  'env' | 'identity' | 'serviceUrl' | 'log' | 'store' | 'serviceUrls'
> {
  key: Promise<ServiceKey>
  signer: RelaySigner
  clock: Clock
}

/** Credential, or signature over a challenge. Default challenge: the last one that this process issued to the DID. */
export type LoginRequest = { jwt: string } | { did: string; sig: string; challenge?: string }

/** Proof of a login. `isSignedByAddress` verifies its signature; `refusal` is the error code if it is invalid. */
interface LoginProof {
  userDid: string
  challenge: string
  isSignedByAddress: (address: string) => boolean
  refusal: 'ERR_CREDENTIAL' | 'ERR_CHALLENGE'
}

/**
 * Key that verifies the service's tokens. `publicKey` has 65 bytes, uncompressed. `tokenCurve` also accepts the
 * signatures of replaced keys.
 */
export type ServiceKey = { curve: Curve; tokenCurve: Pick<Curve, 'sha256' | 'verify'>; publicKey: Uint8Array }

/** Loads the curve and computes the public key. @throws TypeError if the key is not a private key of secp256k1 */
export async function loadServiceKey({ privateKey, previousServiceDids = [] }: Identity): Promise<ServiceKey> {
  const curve = await loadCurve()
  const publicKey = curve.publicKeyOf(Buffer.from(privateKey.replace(/^0x/, ''), 'hex'))
  if (publicKey === undefined) throw new TypeError('PRIVATE_KEY is not a private key of secp256k1')
  return { curve, tokenCurve: curveWithPreviousKeys(curve, previousServiceDids), publicKey }
}

/** Creates the relay's login and authentication. @throws StartError for too many login domains */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function createRelayAuth(parts: RelayAuthParts) {
  const { env, identity, serviceUrl, key, signer, clock } = parts
  const { NETWORKS: networks } = env
  const { serviceDid, previousServiceDids = [] } = identity
  const serviceDids = [serviceDid, ...previousServiceDids]
  const loginDomains = listLoginDomains(parts)
  const loginDialects: readonly LoginDialect[] = env.LOGIN_DIALECTS ?? ['login']
  const challengeSecret = deriveChallengeSecret(env, identity.challengeSecret)
  const store = limitStoreTime(parts.store)()
  const timeSlotSeconds = env.TIME_SLOT_IN_SECONDS ?? optionDefaults.timeSlotInSeconds
  const limits = {
    settings: { maxRequestsPerTimeSlot: getMaxRequests(env) ?? Infinity },
    quotas: createServiceQuotas(clock, { serviceUrl, challengeSecret, timeSlotSeconds }),
    store
  }
  const trusted = findTrustedIssuer(parts)
  const verifyResourceToken =
    trusted && createResourceIssuer({ ...trusted, audience: serviceUrl, networks, clock, logger: parts.log, loadCurve })
  /** Cache of verified tokens. Invalid tokens are not stored, so strangers cannot evict the tokens of users. */
  const verified = new LRUCache<string, RelayTokenClaims>({ max: MAX_VERIFIED_TOKENS })
  /** Last challenge of each canonical DID. A challenge contains its own expiry. */
  const lastChallenges = new LRUCache<string, string>({ max: MAX_LAST_CHALLENGES })

  const parseProof = (curve: Curve, request: LoginRequest, nowSeconds: number): LoginProof => {
    if ('jwt' in request) {
      const service = { dids: serviceDids, url: serviceUrl }
      const { userDid, challenge, parsed } = parseLoginCredential(request.jwt, service, nowSeconds)
      const isSignedByAddress = (address: string): boolean => signerAddresses(curve, parsed).includes(address)
      return { userDid, challenge, isSignedByAddress, refusal: 'ERR_CREDENTIAL' }
    }
    const { did, sig, challenge = lastChallenges.get(canonicalDid(did)) ?? '' } = request
    if (!isDid(did)) throw new ServerError('ERR_INVALID_REQUEST')
    if (!isEthrDid(did)) throw new DidAuthError('ERR_DID_UNSUPPORTED')
    const signature = parseSignature(sig, chainIdOfDid(did))
    const messages = loginDialects.flatMap((dialect) =>
      loginDomains.map((domain) => loginMessage(domain, challenge, dialect))
    )
    const isSignedByAddress = (address: string): boolean =>
      messages.some((message) => recoverPersonalSigner(curve, message, signature) === address)
    return { userDid: did, challenge, isSignedByAddress, refusal: 'ERR_CHALLENGE' }
  }

  const verifyOwnToken = async (authorization: string): Promise<string> => {
    const token = RELAY_TOKEN_HEADER.exec(authorization)?.[1]
    if (token === undefined) throw new DidAuthError('ERR_ACCESS_TOKEN')
    const nowSeconds = clock.nowSeconds()
    let claims = verified.get(token)
    if (claims === undefined) {
      const { tokenCurve, publicKey } = await key
      claims = verifyRelayToken(tokenCurve, token, { serviceDids, publicKey, nowSeconds })
      verified.set(token, claims)
    } else assertInForce(claims, nowSeconds)
    return claims.did
  }

  /**
   * Authenticates a request and counts it against the user's quota. Returns the canonical DID of the user.
   *
   * @param authorization - the header: a relay token, bare or after `DIDAuth`, or a token of the issuer after `Bearer`
   * @throws DidAuthError ERR_ACCESS_TOKEN_MISSING, ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED, ERR_TOO_MANY_REQUESTS,
   * ERR_STORE; ERR_DID_UNSUPPORTED, ERR_KEYS
   */
  const authenticate = async (authorization = ''): Promise<string> => {
    if (!hasRelayToken(authorization)) {
      readHeaderToken(authorization, SCHEMES)
      throw new DidAuthError('ERR_ACCESS_TOKEN_MISSING')
    }
    const token = readBearerToken(authorization)
    const user = token === undefined ? undefined : await verifyResourceToken?.(token)
    const did = user?.canonicalDid ?? (await verifyOwnToken(authorization))
    await chargeUser(limits, did)
    return did
  }

  return {
    /** Issues a challenge. @throws ServerError ERR_INVALID_REQUEST for no DID; DidAuthError ERR_DID_UNSUPPORTED */
    requestChallenge(did: string): string {
      if (!isDid(did)) throw new ServerError('ERR_INVALID_REQUEST')
      assertNetwork(did, networks)
      const challenge = issueRelayChallenge(challengeSecret, did, clock.nowSeconds())
      if (isEthrDid(did)) lastChallenges.set(canonicalDid(did), challenge)
      return challenge
    },

    /**
     * Exchanges a credential or a signature over a challenge for a token. A challenge is valid once. The signature is
     * verified only if this service issued the challenge.
     *
     * @throws ServerError ERR_INVALID_REQUEST if `did` is not a DID
     * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED, ERR_SIGNATURE, ERR_DID_UNSUPPORTED, ERR_CHALLENGE,
     * ERR_CHALLENGE_EXPIRED, ERR_CHALLENGE_USED, ERR_BUSY, ERR_STORE
     */
    async logIn(request: LoginRequest): Promise<string> {
      const { curve } = await key
      const nowSeconds = clock.nowSeconds()
      const { userDid, challenge, isSignedByAddress, refusal } = parseProof(curve, request, nowSeconds)
      assertNetwork(userDid, networks)
      const issued = parseRelayChallenge(challengeSecret, userDid, nowSeconds, challenge)
      if (issued === undefined) {
        const reason = { check: 'challenge', expected: 'one that this relay issued to the DID' }
        throw new DidAuthError('ERR_CHALLENGE', { reason })
      }
      if (nowSeconds >= issued.expiresAtSeconds) throw new DidAuthError('ERR_CHALLENGE_EXPIRED')
      if (!isSignedByAddress(addressOfDid(userDid, curve))) {
        throw new DidAuthError(refusal, { reason: { check: 'signature', expected: 'one by the key of the DID' } })
      }
      // The key omits the URL of this service. Otherwise the challenge would be valid again under another URL.
      await consumeOnce({ settings: { serviceUrl: 'relay' }, store, clock }, challenge, issued)
      const expiresAtSeconds = nowSeconds + env.RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS
      return issueRelayToken(signer, { serviceDid, userDid, nowSeconds, expiresAtSeconds })
    },

    authenticate,

    /**
     * Admits a read. If reads are open, a request without a token counts against the quota of its client network. An
     * invalid token is always refused, as by `requireDid.optional`. @throws DidAuthError as {@link authenticate}
     */
    async admitRead(authorization: string | undefined, findCaller: () => Caller): Promise<void> {
      if (env.RELAY_OPEN_READS && !hasRelayToken(authorization)) await charge(limits, findCaller(), 'reads')
      else await authenticate(authorization)
    }
  }
}

/** Lists the accepted login domains. An invalid signature costs one key recovery for each. @throws StartError */
function listLoginDomains({ serviceUrl, env }: RelayAuthParts): string[] {
  const domains = acceptedLoginDomains(serviceUrl, env.LOGIN_DOMAINS ?? [])
  if (domains.length <= MAX_LOGIN_DOMAINS) return domains
  const list = JSON.stringify(domains)
  throw new StartError(
    `LOGIN_DOMAINS: received ${list}; give at most ${MAX_LOGIN_DOMAINS}, including the domains of SERVICE_URL`
  )
}

/**
 * Issues a challenge that authenticates its issuer, its DID and its time.
 *
 * @returns 128 hexadecimal characters: the random bytes, then their HMAC-SHA256 with DID and time
 * @see specification, table "Challenge", row "Component B"
 */
function issueRelayChallenge(secret: string, did: string, nowSeconds: number): string {
  const random = randomBytes(RANDOM_BYTES)
  return random.toString('hex') + seal(secret, random, did, Math.floor(nowSeconds / SLOT_SECONDS)).toString('hex')
}

/** Parses slot and expiry. Undefined if it is not of this service or DID, or expired more than 5 minutes ago. */
function parseRelayChallenge(secret: string, did: string, nowSeconds: number, challenge: string) {
  if (!CHALLENGE.test(challenge)) return undefined
  const bytes = Buffer.from(challenge, 'hex')
  const random = bytes.subarray(0, RANDOM_BYTES)
  for (let age = 0; age <= 2 * VALID_SLOTS; age += 1) {
    const slot = Math.floor(nowSeconds / SLOT_SECONDS) - age
    if (!timingSafeEqual(bytes.subarray(RANDOM_BYTES), seal(secret, random, did, slot))) continue
    return { slot, expiresAtSeconds: (slot + VALID_SLOTS + 1) * SLOT_SECONDS }
  }
  return undefined
}

function seal(secret: string, random: Uint8Array, did: string, slot: number): Buffer {
  // The slot has a fixed length, so that its first digits cannot be confused with the last digits of a DID.
  const time = Buffer.alloc(8)
  time.writeBigUInt64BE(BigInt(slot))
  return createHmac('sha256', secret).update(random).update(canonicalDid(did)).update(time).digest()
}

/** Schemes of `Authorization` with a token of the relay or of the service that it trusts. */
const SCHEMES = ['DIDAuth', 'Bearer'] as const

/** Whether the header has a token, valid or not: also a bare one. Another scheme, such as `Basic`, is no token. */
function hasRelayToken(authorization = ''): boolean {
  const isBare = authorization !== '' && !authorization.includes(' ')
  return isBare || hasTokenScheme(authorization, SCHEMES)
}
