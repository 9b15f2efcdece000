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
  limitStoreTime,
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

const DEFAULT_TIME_SLOT_SECONDS = 600
/** About 1 KB each. */
const MAX_VERIFIED_TOKENS = 10_000
/** About 500 bytes each. */
const MAX_LAST_CHALLENGES = 10_000
const RANDOM_BYTES = 32
const SLOT_SECONDS = 10
/** Earlier slots whose challenges are still valid. */
const GOOD_SLOTS = 30
/** Seconds that a challenge is good for at least. */
export const RELAY_CHALLENGE_SECONDS = GOOD_SLOTS * SLOT_SECONDS
const CHALLENGE = /^[0-9a-f]{128}$/
const OWN_TOKEN = /^(?:DIDAuth +)?([^ ]+)$/i

/** What the login of the relay works with. */
export interface RelayAuthParts extends Pick<
  ServerAppParts,
  'env' | 'identity' | 'serviceUrl' | 'log' | 'store' | 'serviceUrls'
> {
  key: Promise<ServiceKey>
  signer: RelaySigner
  clock: Clock
}

/** A credential, or a signature over a challenge: by default the last one that this process gave to the DID. */
export type LoginRequest = { jwt: string } | { did: string; sig: string; challenge?: string }

/** `isBy` computes whether the key of an address made the proof; `refusal` is what is wrong where it did not. */
interface LoginProof {
  userDid: string
  challenge: string
  isBy: (address: string) => boolean
  refusal: 'ERR_CREDENTIAL' | 'ERR_CHALLENGE'
}

/**
 * The key that verifies the service's tokens: `publicKey` has 65 bytes, uncompressed. `tokenCurve` also knows the keys
 * that it replaced.
 */
export type ServiceKey = { curve: Curve; tokenCurve: Pick<Curve, 'sha256' | 'verify'>; publicKey: Uint8Array }

/** Loads the curve, and computes the public key. @throws TypeError for what is not a private key of secp256k1 */
export async function loadServiceKey({ privateKey, previousServiceDids = [] }: Identity): Promise<ServiceKey> {
  const curve = await loadCurve()
  const publicKey = curve.publicKeyOf(Buffer.from(privateKey.replace(/^0x/, ''), 'hex'))
  if (publicKey === undefined) throw new TypeError('PRIVATE_KEY is no private key of secp256k1')
  return { curve, tokenCurve: curveWithPreviousKeys(curve, previousServiceDids), publicKey }
}

/** Makes what logs users of the relay in, and finds the user of a request. @throws StartError for too many domains */
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
  const timeSlotSeconds = env.TIME_SLOT_IN_SECONDS ?? DEFAULT_TIME_SLOT_SECONDS
  const limits = {
    settings: { maxRequestsPerTimeSlot: getMaxRequests(env) ?? Infinity },
    quotas: createServiceQuotas(clock, { serviceUrl, challengeSecret, timeSlotSeconds }),
    store
  }
  const trusted = findTrustedIssuer(parts)
  const userOfResourceToken =
    trusted && createResourceIssuer({ ...trusted, audience: serviceUrl, networks, clock, logger: parts.log })
  /** Tokens of our own key only, so that strangers cannot evict those of users. */
  const verified = new LRUCache<string, RelayTokenClaims>({ max: MAX_VERIFIED_TOKENS })
  /** By canonical DID. A challenge contains its own expiry. */
  const lastChallenges = new LRUCache<string, string>({ max: MAX_LAST_CHALLENGES })

  const proofIn = (curve: Curve, request: LoginRequest, nowSeconds: number): LoginProof => {
    if ('jwt' in request) {
      const service = { dids: serviceDids, url: serviceUrl }
      const { userDid, challenge, parsed } = parseLoginCredential(request.jwt, service, nowSeconds)
      const isBy = (address: string): boolean => signerAddresses(curve, parsed).includes(address)
      return { userDid, challenge, isBy, refusal: 'ERR_CREDENTIAL' }
    }
    const { did, sig, challenge = lastChallenges.get(canonicalDid(did)) ?? '' } = request
    if (!isDid(did)) throw new ServerError('ERR_INVALID_REQUEST')
    if (!isEthrDid(did)) throw new DidAuthError('ERR_DID_UNSUPPORTED')
    const signature = parseSignature(sig, chainIdOfDid(did))
    const messages = loginDialects.flatMap((dialect) =>
      loginDomains.map((domain) => loginMessage(domain, challenge, dialect))
    )
    const isBy = (address: string): boolean =>
      messages.some((message) => recoverPersonalSigner(curve, message, signature) === address)
    return { userDid: did, challenge, isBy, refusal: 'ERR_CHALLENGE' }
  }

  const didOfOwnToken = async (authorization: string): Promise<string> => {
    const token = OWN_TOKEN.exec(authorization)?.[1]
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
   * Whose a request is: a canonical DID, against whose quota it counts.
   *
   * @param authorization - the header: a token, bare or after `DIDAuth`; one of the trusted issuer after `Bearer`
   * @throws DidAuthError ERR_ACCESS_TOKEN_MISSING, ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED, ERR_TOO_MANY_REQUESTS,
   * ERR_STORE; ERR_DID_UNSUPPORTED, ERR_KEYS
   */
  const authenticate = async (authorization = ''): Promise<string> => {
    if (authorization === '') throw new DidAuthError('ERR_ACCESS_TOKEN_MISSING')
    const token = readBearerToken(authorization)
    const user = token === undefined ? undefined : await userOfResourceToken?.(token)
    const did = user?.canonicalDid ?? (await didOfOwnToken(authorization))
    await chargeUser(limits, did)
    return did
  }

  return {
    /** @throws ServerError ERR_INVALID_REQUEST for no DID; DidAuthError ERR_DID_UNSUPPORTED for another network's */
    requestChallenge(did: string): string {
      if (!isDid(did)) throw new ServerError('ERR_INVALID_REQUEST')
      assertNetwork(did, networks)
      const challenge = issueRelayChallenge(challengeSecret, did, clock.nowSeconds())
      if (isEthrDid(did)) lastChallenges.set(canonicalDid(did), challenge)
      return challenge
    },

    /**
     * Exchanges a credential, or a signature, that answers a challenge for a token. Nothing is computed on the curve
     * for a challenge that is not ours, and none is good twice.
     *
     * @throws ServerError ERR_INVALID_REQUEST when `did` is no DID
     * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED, ERR_SIGNATURE, ERR_DID_UNSUPPORTED, ERR_CHALLENGE,
     * ERR_CHALLENGE_EXPIRED, ERR_CHALLENGE_USED, ERR_BUSY, ERR_STORE
     */
    async logIn(request: LoginRequest): Promise<string> {
      const { curve } = await key
      const nowSeconds = clock.nowSeconds()
      const { userDid, challenge, isBy, refusal } = proofIn(curve, request, nowSeconds)
      assertNetwork(userDid, networks)
      const known = findRelayChallenge(challengeSecret, userDid, nowSeconds, challenge)
      if (known === undefined) throw new DidAuthError('ERR_CHALLENGE')
      if (nowSeconds >= known.expiresAtSeconds) throw new DidAuthError('ERR_CHALLENGE_EXPIRED')
      if (!isBy(addressOfDid(userDid, curve))) throw new DidAuthError(refusal)
      // Not under the URL of this service: the challenge would be good under another one as well.
      await consumeOnce({ settings: { serviceUrl: 'relay' }, store, clock }, challenge, known)
      const expiresAtSeconds = nowSeconds + env.RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS
      return issueRelayToken(signer, { serviceDid, userDid, nowSeconds, expiresAtSeconds })
    },

    authenticate,

    /**
     * Lets a request read. Where reads are open and it has no token, it counts against the quota of its client network.
     * A bad token is refused, as by `requireDid.optional`. @throws DidAuthError as {@link authenticate}
     */
    async admitRead(authorization: string | undefined, callerOf: () => Caller): Promise<void> {
      if (env.RELAY_OPEN_READS && (authorization ?? '') === '') await charge(limits, callerOf(), 'reads')
      else await authenticate(authorization)
    }
  }
}

/** What may stand after `Login to ` in a message: each costs a key recovery for a bad signature. @throws StartError */
function listLoginDomains({ serviceUrl, env }: RelayAuthParts): string[] {
  const domains = acceptedLoginDomains(serviceUrl, env.LOGIN_DOMAINS ?? [])
  if (domains.length <= MAX_LOGIN_DOMAINS) return domains
  const given = JSON.stringify(domains)
  throw new StartError(`LOGIN_DOMAINS: received ${given}; give at most ${MAX_LOGIN_DOMAINS} with those of SERVICE_URL`)
}

/**
 * A challenge that proves that we issued it, for which DID and when.
 *
 * @returns 128 hexadecimal characters: the random bytes, then their HMAC-SHA256 with DID and time
 * @see specification, table "Challenge", row "Component B"
 */
function issueRelayChallenge(secret: string, did: string, nowSeconds: number): string {
  const random = randomBytes(RANDOM_BYTES)
  return random.toString('hex') + seal(secret, random, did, Math.floor(nowSeconds / SLOT_SECONDS)).toString('hex')
}

/** The slot of its issue, and when it expires. Undefined if it is not ours, for another DID, or 5 minutes expired. */
function findRelayChallenge(secret: string, did: string, nowSeconds: number, challenge: string) {
  if (!CHALLENGE.test(challenge)) return undefined
  const bytes = Buffer.from(challenge, 'hex')
  const random = bytes.subarray(0, RANDOM_BYTES)
  for (let age = 0; age <= 2 * GOOD_SLOTS; age += 1) {
    const slot = Math.floor(nowSeconds / SLOT_SECONDS) - age
    if (!timingSafeEqual(bytes.subarray(RANDOM_BYTES), seal(secret, random, did, slot))) continue
    return { slot, expiresAtSeconds: (slot + GOOD_SLOTS + 1) * SLOT_SECONDS }
  }
  return undefined
}

function seal(secret: string, random: Uint8Array, did: string, slot: number): Buffer {
  // Of a fixed length, so that no DID's last digits can be taken for the slot's first.
  const time = Buffer.alloc(8)
  time.writeBigUInt64BE(BigInt(slot))
  return createHmac('sha256', secret).update(random).update(canonicalDid(did)).update(time).digest()
}
