import { createHmac } from 'node:crypto'
import { RecentEntries } from '../caches.js'
import type { Settings } from '../config/settings.js'
import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { Client, Clock, QuotaStore, SecurityEvent } from '../ports.js'
import { canonicalDid } from '../protocol/did.js'

// A user's own quota, which a stranger cannot use up, and budgets by client network for requests without proof, so that
// no client locks another out.

/** Factors by which budgets of a client network are larger than a user's quota. */
const FACTORS = { didRequests: 10, failedProofs: 100, logins: 50, nonces: 50, reads: 1 } satisfies Partial<
  Record<Budget, number>
>

/** Proofs that a chain is asked about, for one client network: each is several calls to its node. */
const CONTRACT_PROOFS = 30

/** Length of a quota key, which is the first part of an HMAC. */
const KEY_CHARACTERS = 22

/** Budgets that an unknown proxy would make all its users share: behind it, nothing is counted. */
const NOT_SHARED: ReadonlySet<Quota['budget']> = new Set(['logins', 'nonces'])

/**
 * A budget of a client network: requests that name a DID without proof, failed proofs, logins with a valid proof,
 * nonces (page after page asks for one, whether or not its visitor logs in), proofs that a chain is asked about, reads
 * without token.
 */
export type Budget = 'didRequests' | 'failedProofs' | 'logins' | 'nonces' | 'contracts' | 'reads'

/** One quota: at most `limit` requests in a time slot. */
export interface Quota {
  /** `requests` are those of a user who proved control. */
  budget: Budget | 'requests'
  /** Budget and owner in plain text; a store sees only an HMAC of it. */
  name: string
  limit: number
}

/** The quotas of one service, see {@link createServiceQuotas}. */
export interface Quotas {
  /** Counts one request in a store. @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_STORE */
  charge(store: QuotaStore, quota: Quota): Promise<void>
  /** Asserts that no earlier charge used the quota up, only from memory. @throws DidAuthError ERR_TOO_MANY_REQUESTS */
  assertLeft(quota: Quota): void
}

/** Sender of a request, as far as it is known without proof. */
export interface Caller extends Client {
  /**
   * The networks that its requests count for, the smallest first, and how many times the budget each has. Requests that
   * a page of another site makes a browser send count for networks of their own, so that no page locks its visitor out.
   */
  readonly networks: readonly { network: string; factor: number }[]
  /** Whether all users may share its address: it is that of a proxy which the application does not trust. */
  readonly isShared: boolean
}

/** Parts that budgets are computed from. */
type BudgetParts = { settings: Pick<Settings, 'maxRequestsPerTimeSlot'> }
type ChargeParts = BudgetParts & { quotas: Pick<Quotas, 'charge'>; store: QuotaStore }

/** Refusals that cost only this service work: the challenge stays, and the same body can be sent again. */
const UNPROVED: ReadonlySet<DidAuthErrorCode> = new Set([
  'ERR_SIGNATURE',
  'ERR_CHALLENGE',
  'ERR_APPROVAL',
  'ERR_MESSAGE',
  'ERR_MESSAGE_DOMAIN',
  'ERR_NETWORK',
  'ERR_CONTRACT_ABSENT',
  'ERR_CONTRACT_SIGNATURE',
  'ERR_CHAIN',
  'ERR_CREDENTIAL',
  'ERR_CREDENTIAL_EXPIRED',
  'ERR_CREDENTIAL_ISSUER',
  'ERR_RESOLVER'
])

/** Signatures that were valid once: they count only against the client network, and tell a client to retry. */
const OUTDATED: ReadonlySet<DidAuthErrorCode> = new Set([
  'ERR_CHALLENGE_EXPIRED',
  'ERR_CHALLENGE_USED',
  // The signature is valid, yet the challenge is not consumed: the same body costs the same work again.
  'ERR_DISCLOSURE_MISSING'
])

/** Counts a request of a user who is authenticated; what a foreign page makes a browser read is counted apart. */
export function chargeUser(parts: ChargeParts, user: string, isForeignRead = false): Promise<void> {
  const name = isForeignRead ? `${user} foreign` : user
  return parts.quotas.charge(parts.store, { budget: 'requests', name, limit: parts.settings.maxRequestsPerTimeSlot })
}

/**
 * Counts a request for the networks of a stranger, the smaller first: what that refuses does not count for the larger.
 * @param did - for a budget that a network has for each DID
 * @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_STORE
 */
export async function charge(parts: ChargeParts, caller: Caller, budget: Budget, did?: string): Promise<void> {
  for (const quota of listQuotas(parts, caller, budget, did)) await parts.quotas.charge(parts.store, quota)
}

/** Asserts that the client network has budget left for logins and for refused proofs. It counts nothing. */
export function assertProofBudget(parts: BudgetParts & { quotas: Pick<Quotas, 'assertLeft'> }, caller: Caller): void {
  for (const budget of ['failedProofs', 'logins'] as const) {
    for (const quota of listQuotas(parts, caller, budget)) parts.quotas.assertLeft(quota)
  }
}

/** Reports and counts a refused proof; one that proves nothing counts as a request that names a DID as well. */
export async function chargeRefusal(
  parts: ChargeParts & { report: (event: Omit<SecurityEvent, 'atSeconds'>) => void },
  { did, client }: { did?: string | undefined; client: Caller },
  error: unknown
): Promise<void> {
  if (!(error instanceof DidAuthError)) return
  const { code } = error
  if (!UNPROVED.has(code) && !OUTDATED.has(code)) return
  const event = { type: 'proof-refused', code, clientNetwork: client.network } as const
  parts.report(did === undefined ? event : { ...event, did })
  await charge(parts, client, 'failedProofs')
  if (did !== undefined && UNPROVED.has(code)) await charge(parts, client, 'didRequests', did)
}

function listQuotas({ settings }: BudgetParts, caller: Caller, budget: Budget, did?: string): Quota[] {
  if (caller.isShared && NOT_SHARED.has(budget)) return []
  const limit = budget === 'contracts' ? CONTRACT_PROOFS : settings.maxRequestsPerTimeSlot * FACTORS[budget]
  const label = did === undefined ? budget : `${budget} ${canonicalDid(did)}`
  return caller.networks.map(({ network, factor }) => ({ budget, name: `${label} ${network}`, limit: limit * factor }))
}

/**
 * The quotas of one service. A store sees names only as HMACs, so that it holds no client address. A quota that is
 * known to be used up is refused from memory, so that refusals cost the store nothing.
 */
export function createServiceQuotas(
  clock: Clock,
  { serviceUrl, challengeSecret, timeSlotSeconds }: Pick<Settings, 'serviceUrl' | 'challengeSecret' | 'timeSlotSeconds'>
): Quotas {
  const hmacKey = createHmac('sha256', challengeSecret).update(`quota-keys\n${serviceUrl}`).digest()
  /** Quota keys by name: an HMAC for each request would cost more than the rest of the guard. */
  const keys = new RecentEntries<string>()
  /** Ends of the time slots of used up quotas, by key. */
  const usedUp = new RecentEntries<number>()
  let clearedAtSeconds = clock.nowSeconds()

  /** Names of strangers stay in memory for at most two time slots. */
  const clearInTime = (nowSeconds: number): void => {
    if (Math.abs(nowSeconds - clearedAtSeconds) < timeSlotSeconds) return
    clearedAtSeconds = nowSeconds
    keys.clear()
    usedUp.clear()
  }

  const computeKey = (name: string): string => {
    const known = keys.get(name)
    if (known !== undefined) return known
    const key = createHmac('sha256', hmacKey).update(name).digest('base64url').slice(0, KEY_CHARACTERS)
    keys.set(name, key)
    return key
  }

  const assertKeyLeft = (quota: Quota, key: string, nowSeconds: number): void => {
    const resetsAtSeconds = usedUp.get(key) ?? -Infinity
    if (nowSeconds < resetsAtSeconds) throw createLimitError(quota, resetsAtSeconds - nowSeconds)
  }

  return {
    async charge(store, quota) {
      const { budget, name, limit } = quota
      const nowSeconds = clock.nowSeconds()
      clearInTime(nowSeconds)
      const key = computeKey(name)
      assertKeyLeft(quota, key, nowSeconds)
      const { isCharged, count, resetsAtSeconds } = await store.chargeQuota({
        service: serviceUrl,
        kind: budget === 'requests' ? 'request' : 'anonymous',
        key,
        cost: 1,
        limit,
        nowSeconds,
        timeSlotSeconds
      })
      if (!isCharged || count >= limit) usedUp.set(key, resetsAtSeconds)
      if (!isCharged) throw createLimitError(quota, resetsAtSeconds - nowSeconds)
    },
    assertLeft: (quota) => assertKeyLeft(quota, computeKey(quota.name), clock.nowSeconds())
  }
}

function createLimitError({ budget, limit }: Quota, seconds: number): DidAuthError {
  const reason = { check: 'quota', budget, limit, option: 'maxRequestsPerTimeSlot' }
  return new DidAuthError('ERR_TOO_MANY_REQUESTS', { retryAfterSeconds: Math.max(1, seconds), reason })
}
