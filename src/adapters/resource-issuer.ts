import type { CryptoKey } from 'jose'
import { DidAuthError } from '../errors.js'
import { createLazy } from '../lazy.js'
import type { AuthenticatedUser, Clock, Curve, IssuerEndedSessionsOptions, Logger } from '../ports.js'
import type { ResourceIssuer, ResourceKey, WaitUntil } from '../ports.js'
import { assertInForce, parseResourceToken, RESOURCE_TOKEN_SECONDS } from '../protocol/access-token.js'
import { computeThumbprint } from '../protocol/device-proof.js'
import { addressOfDid, assertNetwork, canonicalDid, hasEthrMethod, isDid, isEthrDid } from '../protocol/did.js'
import { readField, isObject } from '../protocol/json.js'
import { isSecureUrl } from '../protocol/parse-url.js'
import { ExpiringCache, RecentEntries } from '../caches.js'
import { waitAtMost } from '../time.js'
import { limitMilliseconds } from '../time-limits.js'
import { EndedSessionReader, fetchDiscovery, type EndedSessionsSource } from './ended-session-reader.js'
import { describeFetchError, fetchBounded } from './fetch-bounded.js'
import { parseNamedKeys } from './named-keys.js'

/** Signatures of resource tokens, by the names of WebCrypto. The bundle of the entry verify contains no JWT library. */
const ES256 = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const MAX_ANSWER_BYTES = 64 * 1024
const KEYS_SECONDS = limitMilliseconds.keyLifetime / 1000
const COOLDOWN_SECONDS = limitMilliseconds.keyPause / 1000
/** Longest wait for a fetch: in Workers, the fetch of a request that was cancelled never settles. */
const STUCK_SECONDS = limitMilliseconds.keyWait / 1000

/** Dependencies of the verifier, with names as in the options of the library. */
export interface ResourceIssuerParts {
  /** `serviceUrl` of the service that issues the tokens: their `iss`. */
  issuer: string
  /** URL of this service: the `aud` of the tokens. */
  audience: string
  /** Keys of the issuer, each under its thumbprint. Undefined: they are fetched from the issuer. */
  keys?: readonly ResourceKey[] | undefined
  /** Whether to refuse tokens of sessions that ended at the issuer. Default false. */
  endedSessions?: boolean | IssuerEndedSessionsOptions | undefined
  /** Accepted networks of `did:ethr` users. Undefined: every network. */
  networks: readonly string[] | undefined
  /** Clock for the lifetimes of tokens and cached keys. */
  clock: Clock
  /** Receiver of a warning when keys or the list of ended sessions cannot be fetched. */
  logger: Pick<Logger, 'warn'>
  /** Loads the curve of `did:ethr` users and of the list of ended sessions. */
  loadCurve: () => Promise<IssuerCurve>
}

/** Part of a curve that the verifier uses. */
type IssuerCurve = Pick<Curve, 'sha256' | 'verify' | 'recover' | 'decompress' | 'keccak256Hex'>

/**
 * Creates a verifier of the tokens of another service by its published keys. The keys are fetched for the first token,
 * after 10 min, and for an unknown key, at most once in 30 s. While the issuer is unavailable or its JWK set invalid,
 * the previous keys stay in use. The remote JWK set of jose would drop them, and fetch for each unknown key.
 */
export function createResourceIssuer(parts: ResourceIssuerParts): ResourceIssuer {
  const { issuer, audience, networks, clock, logger, loadCurve } = parts
  const verified = new RecentEntries<AuthenticatedUser>()
  let cached: { keys: ReadonlyMap<string, CryptoKey>; sinceSeconds: number } | undefined
  let fetchedAtSeconds = -Infinity
  let fetching: Promise<void> | undefined

  const fetchKeys = async (sinceSeconds: number): Promise<void> => {
    const keys = await (parts.keys === undefined ? fetchIssuerKeys(issuer) : importOwnKeys(parts.keys))
    cached = { keys, sinceSeconds }
    // Tokens of a key that is no longer published must be refused from now on.
    verified.clear()
  }

  const importOwnKeys = async (keys: readonly ResourceKey[]): Promise<ReadonlyMap<string, CryptoKey>> => {
    const curve = await loadCurve()
    const named = keys.map(({ x = '', y = '' }) => {
      const key = { kty: 'EC', crv: 'P-256', x, y } as const
      return { ...key, kid: computeThumbprint(curve, key) }
    })
    return importKeys(named)
  }

  /** Returns the key of a token; undefined if the issuer does not publish it. */
  const findKey = async (kid: string, waitUntil?: WaitUntil): Promise<CryptoKey | undefined> => {
    const now = clock.nowSeconds()
    const isCached = cached?.keys.has(kid) === true && Math.abs(now - cached.sinceSeconds) < KEYS_SECONDS
    const pauseSeconds = fetching === undefined ? COOLDOWN_SECONDS : STUCK_SECONDS
    if (!isCached && Math.abs(now - fetchedAtSeconds) >= pauseSeconds) {
      fetchedAtSeconds = now
      const fetched = fetchKeys(now)
        .catch((error: unknown) => {
          const reason = describeFetchError(error)
          logger.warn({ event: 'issuer-keys', issuer, reason }, 'the keys of the trusted issuer could not be fetched')
        })
        .finally(() => {
          if (fetching === fetched) fetching = undefined
        })
      fetching = fetched
    }
    if (!isCached && fetching !== undefined) {
      waitUntil?.(fetching)
      await waitAtMost(limitMilliseconds.keyWait, fetching)
    }
    if (cached === undefined) throw new DidAuthError('ERR_KEYS', { retryAfterSeconds: COOLDOWN_SECONDS })
    return cached.keys.get(kid)
  }

  const verify = async (token: string, waitUntil?: WaitUntil): Promise<AuthenticatedUser> => {
    const { kid, claims, signingInput, signature } = parseResourceToken(token, { issuer, audience })
    // DIDs of other methods name no network.
    if (hasEthrMethod(claims.sub)) assertNetwork(claims.sub, networks)
    assertInForce(claims, clock.nowSeconds(), RESOURCE_TOKEN_SECONDS)
    const key = await findKey(kid, waitUntil)
    if (key === undefined || !(await isSignedBy(key, signingInput, signature)))
      throw new DidAuthError('ERR_ACCESS_TOKEN', { reason: { check: 'signature', expected: issuer } })
    const address = isEthrDid(claims.sub) ? addressOfDid(claims.sub, await loadCurve()) : undefined
    const user = { claims, canonicalDid: canonicalDid(claims.sub), address }
    verified.set(token, user)
    return user
  }

  const options = parts.endedSessions === true ? {} : parts.endedSessions
  const endedSessions = options ? createLazy(() => createIssuerReader(parts, options)) : undefined
  return async (token, waitUntil) => {
    const user = verified.get(token) ?? (await verify(token, waitUntil))
    assertInForce(user.claims, clock.nowSeconds(), RESOURCE_TOKEN_SECONDS)
    if (endedSessions !== undefined) await (await endedSessions()).assertActive(user.claims.sid, waitUntil)
    return user
  }
}

/** Creates the reader of the sessions that ended at the issuer. */
async function createIssuerReader(
  { issuer, clock, logger, loadCurve }: ResourceIssuerParts,
  options: IssuerEndedSessionsOptions
): Promise<EndedSessionReader> {
  const curve = await loadCurve()
  const sources = new ExpiringCache<EndedSessionsSource | undefined>({ lifetimeSeconds: KEYS_SECONDS, maxEntries: 1 })
  /** Reads the discovery document of the issuer; undefined if it names no list. */
  const findIssuerSource = async (now: number): Promise<EndedSessionsSource | undefined> => {
    const publisher = await findListPublisher(issuer, options)
    const source = publisher && createSource(publisher.url, publisher.serviceDid)
    sources.set(issuer, source, now)
    return source
  }
  const createSource = (url: string, serviceDid: string): EndedSessionsSource => {
    const verify = parseNamedKeys(curve, [addressOfDid(serviceDid, curve).slice(2)])
    return { url, issuers: [serviceDid], audience: issuer, findKeys: () => verify }
  }
  const findSource = async (): Promise<EndedSessionsSource> => {
    const now = clock.nowSeconds()
    const cached = sources.get(issuer, now) ?? { value: await findIssuerSource(now) }
    if (cached.value === undefined) throw new Error(`${issuer} publishes no list of ended sessions`)
    return cached.value
  }
  return new EndedSessionReader({ clock, logger, curve, findSource }, options)
}

/** Publisher of a list of ended sessions. */
interface ListPublisher {
  url: string
  /** DID (`did:ethr`) whose key signs the list. */
  serviceDid: string
}

/**
 * Finds the list of ended sessions of an issuer. What `options` does not contain is read from the issuer's discovery
 * document.
 * @returns undefined if the document names no list, or the issuer has a DID of another method
 * @throws Error if the document is needed and unavailable
 */
export async function findListPublisher(
  issuer: string,
  options: Pick<IssuerEndedSessionsOptions, keyof ListPublisher> = {}
): Promise<ListPublisher | undefined> {
  const isComplete = options.url !== undefined && options.serviceDid !== undefined
  const published = isComplete ? undefined : await fetchDiscovery(issuer)
  const url = options.url ?? readField(published, 'ended_sessions_uri')
  const serviceDid = options.serviceDid ?? readField(published, 'serviceDid')
  return isSecureUrl(url) && isDid(serviceDid) && isEthrDid(serviceDid) ? { url, serviceDid } : undefined
}

/**
 * Fetches the keys of an issuer, at least one, by `kid`: from the URL in its discovery document, else from
 * `/.well-known/jwks.json`.
 * @throws Error with the status or length of the answer
 * @throws TypeError of `fetch`, whose `cause` is the network error; also for a JWK set without valid keys or with two
 *   keys of one `kid`
 */
export async function fetchIssuerKeys(issuer: string): Promise<ReadonlyMap<string, CryptoKey>> {
  const url = readField(await fetchDiscovery(issuer).catch(() => undefined), 'jwks_uri')
  const defaultUrl = `${issuer.replace(/\/$/, '')}/.well-known/jwks.json`
  const listed = readField(await fetchJson(isSecureUrl(url) ? url : defaultUrl), 'keys')
  return importKeys(Array.isArray(listed) ? listed : [])
}

async function importKeys(listed: readonly unknown[]): Promise<ReadonlyMap<string, CryptoKey>> {
  const keys = new Map<string, CryptoKey>()
  for (const jwk of listed.filter(isSigningKey)) {
    const key = await importPublicKey(jwk)
    if (key === undefined) continue
    if (keys.has(jwk.kid)) throw new TypeError('the JWK set has two keys of one kid')
    keys.set(jwk.kid, key)
  }
  if (keys.size === 0) throw new TypeError('the JWK set has no P-256 key')
  return keys
}

/** A public P-256 key whose members allow signatures by ES256. */
type SigningKey = { kty: 'EC'; crv: 'P-256'; kid: string; x: string; y: string }

function isSigningKey(key: unknown): key is SigningKey {
  if (!isObject(key) || key.kty !== 'EC' || key.crv !== 'P-256') return false
  const isText = ['kid', 'x', 'y'].every((name) => typeof key[name] === 'string')
  return isText && (key.use ?? 'sig') === 'sig' && (key.alg ?? 'ES256') === 'ES256'
}

/** Imports a public key; undefined if it is no point of the curve. @see RFC 7517, section 5 */
async function importPublicKey({ kty, crv, x, y }: SigningKey): Promise<CryptoKey | undefined> {
  return crypto.subtle.importKey('jwk', { kty, crv, x, y }, ES256, false, ['verify']).catch(() => undefined)
}

/** Whether a key made an ES256 signature. A signature of another length is refused. @see RFC 7518, section 3.4 */
function isSignedBy(key: CryptoKey, signingInput: string, signature: Uint8Array): Promise<boolean> {
  return crypto.subtle.verify(ES256, key, new Uint8Array(signature), new TextEncoder().encode(signingInput))
}

/** Fetches JSON of at most 64 KiB. */
async function fetchJson(url: string): Promise<unknown> {
  const limits = { milliseconds: limitMilliseconds.keyFetch, maxBytes: MAX_ANSWER_BYTES }
  const { status, text } = await fetchBounded(url, {}, limits)
  if (status !== 200) throw new Error(`${url} answered ${String(status)}`)
  return JSON.parse(text)
}
