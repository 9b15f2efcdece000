import { randomBytes } from 'node:crypto'
import { DidAuthError, loadCurve, type Clock, type Curve, type Store } from 'express-did-auth'
import {
  addressOfDid,
  assertInForce,
  assertNetwork,
  canonicalDid,
  chainIdOfDid,
  isDid,
  isEthrDid,
  loginMessage,
  parseSignature,
  recoverPersonalSigner,
  signerAddresses,
  type LoginDialect
} from 'express-did-auth/protocol'
import { bearerToken, chargeNetworks, type Caller, type Quotas, type ResourceIssuer } from 'express-did-auth/server-kit'
import { LRUCache } from 'lru-cache'
import { ServerError } from '../http/server-error.js'
import { findRelayChallenge, issueRelayChallenge, type KnownChallenge } from './relay-challenge.js'
import {
  issueRelayToken,
  parseLoginCredential,
  type RelaySigner,
  type RelayTokenClaims,
  verifyRelayToken
} from './relay-credentials.js'

/** About 1 KB each. */
const MAX_VERIFIED_TOKENS = 10_000
/** DIDs whose last challenge is remembered. About 500 bytes each. */
const MAX_LAST_CHALLENGES = 10_000
const OWN_TOKEN = /^(?:DIDAuth +)?([^ ]+)$/i

export interface RelayAuthParts {
  serviceUrl: string
  serviceDid: string
  /** What may stand after `Login to ` in the message of a login by signature. */
  loginDomains: readonly string[]
  /** How its first line may begin. */
  loginDialects: readonly LoginDialect[]
  /** Networks of users' DIDs; undefined: any. */
  networks: readonly string[] | undefined
  challengeSecret: string
  tokenSeconds: number
  /** Requests of a DID in a time slot, and reads of a client network without a token. */
  maxRequests: number
  /** Whether reads need no token. */
  hasOpenReads: boolean
  quotas: Pick<Quotas, 'charge'>
  key: Promise<ServiceKey>
  signer: RelaySigner
  /** Whose tokens for this relay count as well. */
  resourceIssuer: ResourceIssuer | undefined
  store: Pick<Store, 'consumeChallenge'>
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

/** The key that verifies the service's tokens: `publicKey` has 65 bytes, uncompressed. */
export interface ServiceKey {
  curve: Curve
  publicKey: Uint8Array
}

/** @param privateKey - 64 hexadecimal digits, with or without `0x` */
export async function loadServiceKey(privateKey: string): Promise<ServiceKey> {
  const curve = await loadCurve()
  const publicKey = curve.publicKeyOf(Buffer.from(privateKey.replace(/^0x/, ''), 'hex'))
  if (publicKey === undefined) throw new TypeError('PRIVATE_KEY is no private key of secp256k1')
  return { curve, publicKey }
}

/** Logs users of the relay in, and finds the user of a request. */
export class RelayAuth {
  readonly #parts: RelayAuthParts
  /** Tokens of our own key only, so that strangers cannot evict those of users. */
  readonly #verified = new LRUCache<string, RelayTokenClaims>({ max: MAX_VERIFIED_TOKENS })
  /** By canonical DID. A challenge contains its own expiry. */
  readonly #lastChallenges = new LRUCache<string, string>({ max: MAX_LAST_CHALLENGES })

  constructor(parts: RelayAuthParts) {
    this.#parts = parts
  }

  /** @throws ServerError ERR_INVALID_REQUEST for no DID; DidAuthError ERR_DID_UNSUPPORTED for one of another network */
  requestChallenge(did: string): string {
    if (!isDid(did)) throw new ServerError('ERR_INVALID_REQUEST')
    const { networks, challengeSecret, clock } = this.#parts
    assertNetwork(did, networks)
    const challenge = issueRelayChallenge(challengeSecret, did, clock.nowSeconds())
    if (isEthrDid(did)) this.#lastChallenges.set(canonicalDid(did), challenge)
    return challenge
  }

  /**
   * Exchanges a credential, or a signature, that answers a challenge for a token. Nothing is computed on the curve for
   * a challenge that is not ours, and none is good twice.
   *
   * @throws ServerError ERR_INVALID_REQUEST when `did` is no DID
   * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED, ERR_SIGNATURE, ERR_DID_UNSUPPORTED, ERR_CHALLENGE,
   * ERR_CHALLENGE_EXPIRED, ERR_CHALLENGE_USED, ERR_BUSY, ERR_STORE
   */
  async logIn(request: LoginRequest): Promise<string> {
    const { serviceDid, challengeSecret, tokenSeconds, signer, networks } = this.#parts
    const { curve } = await this.#parts.key
    const nowSeconds = this.#parts.clock.nowSeconds()
    const { userDid, challenge, isBy, refusal } = this.#proofIn(curve, request, nowSeconds)
    assertNetwork(userDid, networks)
    const known = findRelayChallenge(challengeSecret, userDid, nowSeconds, challenge)
    if (known === undefined) throw new DidAuthError('ERR_CHALLENGE')
    if (known.isExpired) throw new DidAuthError('ERR_CHALLENGE_EXPIRED')
    if (!isBy(addressOfDid(userDid, curve))) throw new DidAuthError(refusal)
    await this.#consume(challenge, known, nowSeconds)
    const tokenId = randomBytes(16).toString('base64url')
    return issueRelayToken(signer, { serviceDid, userDid, tokenId, nowSeconds, lifetimeSeconds: tokenSeconds })
  }

  /**
   * Whose a request is. It counts against the quota of this DID.
   *
   * @param authorization - the header: a token, bare or after `DIDAuth`; one of the trusted issuer after `Bearer`
   * @returns the canonical DID
   * @throws DidAuthError ERR_ACCESS_TOKEN_MISSING, ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED, ERR_TOO_MANY_REQUESTS,
   * ERR_STORE; ERR_DID_UNSUPPORTED, ERR_KEYS
   */
  async authenticate(authorization: string | undefined): Promise<string> {
    if (hasNoToken(authorization)) throw new DidAuthError('ERR_ACCESS_TOKEN_MISSING')
    const { quotas, maxRequests: limit, resourceIssuer } = this.#parts
    const token = bearerToken(authorization)
    const user = token === undefined ? undefined : await resourceIssuer?.(token)
    const did = user?.canonicalDid ?? (await this.#didOfOwnToken(authorization))
    await quotas.charge({ budget: 'requests', kind: 'request', name: did, limit }).catch(refuseStore)
    return did
  }

  /**
   * Lets a request read. Where reads are open and it has no token, it counts against the quota of its client network,
   * and of no DID. A bad token is refused, as by `requireDid.optional`.
   *
   * @throws DidAuthError as {@link authenticate}
   */
  async admitRead(authorization: string | undefined, callerOf: () => Caller): Promise<void> {
    const { hasOpenReads, quotas, maxRequests } = this.#parts
    if (hasOpenReads && hasNoToken(authorization)) {
      await chargeNetworks({ quotas }, callerOf(), 'reads', maxRequests).catch(refuseStore)
    } else await this.authenticate(authorization)
  }

  async #didOfOwnToken(authorization: string): Promise<string> {
    const token = OWN_TOKEN.exec(authorization)?.[1]
    if (token === undefined) throw new DidAuthError('ERR_ACCESS_TOKEN')
    const nowSeconds = this.#parts.clock.nowSeconds()
    const { key, serviceDid } = this.#parts
    let claims = this.#verified.get(token)
    if (claims === undefined) {
      const { curve, publicKey } = await key
      claims = verifyRelayToken(curve, token, { serviceDid, publicKey, nowSeconds })
      this.#verified.set(token, claims)
    } else assertInForce(claims, nowSeconds)
    return claims.did
  }

  #proofIn(curve: Curve, request: LoginRequest, nowSeconds: number): LoginProof {
    const { serviceDid, serviceUrl, loginDomains, loginDialects } = this.#parts
    if ('jwt' in request) {
      const service = { did: serviceDid, url: serviceUrl }
      const { userDid, challenge, parsed } = parseLoginCredential(request.jwt, service, nowSeconds)
      const isBy = (address: string): boolean => signerAddresses(curve, parsed).includes(address)
      return { userDid, challenge, isBy, refusal: 'ERR_CREDENTIAL' }
    }
    const { did, sig, challenge = this.#lastChallenges.get(canonicalDid(did)) ?? '' } = request
    if (!isDid(did)) throw new ServerError('ERR_INVALID_REQUEST')
    if (!isEthrDid(did)) throw new DidAuthError('ERR_DID_UNSUPPORTED')
    const signature = parseSignature(sig, chainIdOfDid(did))
    const isBy = (address: string): boolean =>
      loginDialects.some((dialect) =>
        loginDomains.some(
          (domain) => recoverPersonalSigner(curve, loginMessage(domain, challenge, dialect), signature) === address
        )
      )
    return { userDid: did, challenge, isBy, refusal: 'ERR_CHALLENGE' }
  }

  async #consume(challenge: string, { slot, expiresAtSeconds }: KnownChallenge, nowSeconds: number): Promise<void> {
    // To the store, this challenge is one use in a window of its own. Not under the URL of this service: the challenge
    // would be good under another one as well.
    const use = { service: 'relay', did: challenge, window: slot, flow: 'logIn', useCount: 0 } as const
    const outcome = await this.#parts.store
      .consumeChallenge({ ...use, consumesBoth: false, nowSeconds, expiresAtSeconds })
      .catch(refuseStore)
    if (outcome === 'taken') throw new DidAuthError('ERR_CHALLENGE_USED')
    if (outcome === 'full') throw new DidAuthError('ERR_BUSY', { retryAfterSeconds: expiresAtSeconds - nowSeconds })
  }
}

function hasNoToken(authorization: string | undefined): authorization is undefined | '' {
  return authorization === undefined || authorization === ''
}

function refuseStore(cause: unknown): never {
  throw cause instanceof DidAuthError ? cause : new DidAuthError('ERR_STORE', { cause })
}
