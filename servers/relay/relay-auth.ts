import { randomBytes } from 'node:crypto'
import { DidAuthError, MemoryStore, type Clock, type Store } from 'express-did-auth'
import { addressOfDid, assertInForce, isDid, signerAddresses, signJwt } from 'express-did-auth/protocol'
import { LRUCache } from 'lru-cache'
import { ServerError } from '../shared/http/server-error.js'
import { findRelayChallenge, issueRelayChallenge } from './relay-challenge.js'
import { parseLoginCredential } from './relay-credential.js'
import { relayTokenPayload, verifyRelayToken, type RelayTokenClaims } from './relay-token.js'
import type { ServiceKey } from './service-key.js'

/** About 1 KB each. */
const MAX_VERIFIED_TOKENS = 10_000
const BEARER = /^(?:DIDAuth +)?([^ ]+)$/i

export interface RelayAuthParts {
  serviceUrl: string
  serviceDid: string
  challengeSecret: string
  tokenSeconds: number
  maxRequests: number
  timeSlotSeconds: number
  key: Promise<ServiceKey>
  store: Pick<Store, 'useChallenge'>
  clock: Clock
}

/** Logs users of the relay in, and tells whose a request is. */
export class RelayAuth {
  readonly #parts: RelayAuthParts
  /** Only tokens of our own key come in, so that a stranger pushes nobody's out. */
  readonly #verified = new LRUCache<string, RelayTokenClaims>({ max: MAX_VERIFIED_TOKENS })
  /** Counted for as long as this process lives. */
  readonly #quotas = new MemoryStore()

  constructor(parts: RelayAuthParts) {
    this.#parts = parts
  }

  /** @throws ServerError ERR_SHAPE when it is no DID */
  requestChallenge(did: string): string {
    if (!isDid(did)) throw new ServerError('ERR_SHAPE')
    return issueRelayChallenge(this.#parts.challengeSecret, did, this.#now(), randomBytes(32))
  }

  /**
   * Exchanges a credential that holds a challenge for a token. Nothing is computed on the curve for a challenge that is
   * not ours, and none is good twice.
   *
   * @throws DidAuthError ERR_CREDENTIAL, ERR_CREDENTIAL_EXPIRED, ERR_DID_UNSUPPORTED, ERR_CHALLENGE,
   * ERR_CHALLENGE_EXPIRED, ERR_CHALLENGE_USED, ERR_BUSY, ERR_STORE
   */
  async logIn(jwt: string): Promise<string> {
    const { serviceUrl, serviceDid, challengeSecret, tokenSeconds } = this.#parts
    const { curve, sign } = await this.#parts.key
    const nowSeconds = this.#now()
    const { userDid, challenge, parsed } = parseLoginCredential(jwt, serviceUrl, nowSeconds)
    const address = addressOfDid(userDid)
    const known = findRelayChallenge(challengeSecret, userDid, nowSeconds, challenge)
    if (known === undefined) throw new DidAuthError('ERR_CHALLENGE')
    if (known.isExpired) throw new DidAuthError('ERR_CHALLENGE_EXPIRED')
    if (!signerAddresses(curve, parsed).includes(address)) throw new DidAuthError('ERR_CREDENTIAL')
    await this.#spend(challenge, known, nowSeconds)
    const tokenId = randomBytes(16).toString('base64url')
    const payload = relayTokenPayload({ serviceDid, userDid, tokenId, nowSeconds, lifetimeSeconds: tokenSeconds })
    return signJwt(payload, sign)
  }

  /**
   * Whose a request is. It counts against the quota of this DID.
   *
   * @param authorization - the header: a token, bare or after `DIDAuth`
   * @returns the canonical DID
   * @throws DidAuthError ERR_ACCESS_TOKEN_MISSING, ERR_ACCESS_TOKEN, ERR_ACCESS_TOKEN_EXPIRED, ERR_TOO_MANY_REQUESTS
   */
  async authenticate(authorization: string | undefined): Promise<string> {
    if (authorization === undefined || authorization === '') throw new DidAuthError('ERR_ACCESS_TOKEN_MISSING')
    const token = BEARER.exec(authorization)?.[1]
    if (token === undefined) throw new DidAuthError('ERR_ACCESS_TOKEN')
    const nowSeconds = this.#now()
    const seenBefore = this.#verified.get(token)
    if (seenBefore !== undefined) assertInForce(seenBefore, nowSeconds)
    const { did } = seenBefore ?? (await this.#verify(token, nowSeconds))
    await this.#charge(did, nowSeconds)
    return did
  }

  async #verify(token: string, nowSeconds: number): Promise<RelayTokenClaims> {
    const { curve, publicKey } = await this.#parts.key
    const claims = verifyRelayToken(curve, token, { serviceDid: this.#parts.serviceDid, publicKey, nowSeconds })
    this.#verified.set(token, claims)
    return claims
  }

  async #spend(
    challenge: string,
    { slot, expiresAtSeconds }: { slot: number; expiresAtSeconds: number },
    nowSeconds: number
  ): Promise<void> {
    // To the store, this challenge is one use in a window of its own. Not under the URL of this service: the challenge
    // would be good under another one as well.
    const use = { service: 'relay', did: challenge, window: slot, flow: 'logIn', useCount: 0 } as const
    const outcome = await this.#parts.store
      .useChallenge({ ...use, spendsBoth: false, nowSeconds, expiresAtSeconds })
      .catch((cause: unknown) => {
        throw new DidAuthError('ERR_STORE', { cause })
      })
    if (outcome === 'taken') throw new DidAuthError('ERR_CHALLENGE_USED')
    if (outcome === 'full') throw new DidAuthError('ERR_BUSY', { retryAfterSeconds: expiresAtSeconds - nowSeconds })
  }

  async #charge(did: string, nowSeconds: number): Promise<void> {
    const { serviceUrl: service, timeSlotSeconds, maxRequests } = this.#parts
    const charge = { service, kind: 'request', key: did, cost: 1, nowSeconds, timeSlotSeconds } as const
    const { count, resetsAtSeconds } = await this.#quotas.chargeQuota(charge)
    if (count <= maxRequests) return
    throw new DidAuthError('ERR_TOO_MANY_REQUESTS', { retryAfterSeconds: Math.max(1, resetsAtSeconds - nowSeconds) })
  }

  #now(): number {
    return this.#parts.clock.nowSeconds()
  }
}
