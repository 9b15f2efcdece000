import { createHmac } from 'node:crypto'
import { RecentEntries } from '../caches.js'
import type { Settings } from '../config/settings.js'
import { DidAuthError, refusalCharges } from '../errors.js'
import type { Client, Clock, QuotaStore, SecurityEvent } from '../ports.js'
import { canonicalDid } from '../protocol/did.js'

// Each authenticated user has a quota, which nobody else can use up. Other requests are charged to budgets of their
// client network, so that no client locks another out.

/** Budgets of a client network, as multiples of a user's quota. */
const FACTORS = {
  didRequests: 10,
  failedProofs: 100,
  logins: 50,
  machines: 50,
  nonces: 50,
  reads: 1
} satisfies Partial<Record<Budget, number>>

/** Contract proofs per client network and time slot. Each costs several calls to a blockchain node. */
const CONTRACT_PROOFS = 30

/** Length of a quota key, which is the first part of an HMAC. */
const KEY_CHARACTERS = 22

/** Budgets that are not charged behind an untrusted proxy, because all its users would share them. */
const UNCHARGED_IF_SHARED: ReadonlySet<Quota['budget']> = new Set(['logins', 'nonces'])

/**
 * A budget of a client network:
 * - `didRequests`: requests that name a DID but do not prove it, counted separately for each DID
 * - `failedProofs`: refused proofs, each issuer key that is tried on a credential, and each status list that is fetched
 * - `logins`: logins with a valid proof
 * - `machines`: tokens of machines whose network is unknown or hidden by a proxy
 * - `nonces`: requested nonces; pages request one even if the visitor does not log in
 * - `contracts`: proofs that a blockchain node verifies
 * - `reads`: reads without a token, and lists of ended sessions except for the newest
 */
export type Budget = 'didRequests' | 'failedProofs' | 'logins' | 'machines' | 'nonces' | 'contracts' | 'reads'

/** One quota: at most `limit` requests in a time slot. */
export interface Quota {
  /** `requests`: the quota of an authenticated user. `deviceProofs`: refused device proofs of one session. */
  budget: Budget | 'requests' | 'deviceProofs'
  /** Budget and owner in plain text. Stores get only an HMAC of it. */
  name: string
  /** Maximum number of requests in a time slot; `Infinity` for no limit. */
  limit: number
}

/** The quotas of one service, see {@link createServiceQuotas}. */
export interface Quotas {
  /** Counts one request in a store. @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_STORE */
  charge(store: QuotaStore, quota: Quota): Promise<void>
  /** Asserts, from memory only, that no earlier charge used the quota up. @throws DidAuthError ERR_TOO_MANY_REQUESTS */
  assertLeft(quota: Quota): void
}

/** Sender of a request that is not authenticated. */
export interface Caller extends Client {
  /**
   * Networks to which its requests are charged, the smallest first. `factor` multiplies the budgets of a network.
   * Requests that a page of another site caused have separate networks, so that no page locks its visitor out.
   */
  readonly networks: readonly { network: string; factor: number }[]
  /** Whether many users may share the address, because it belongs to an untrusted proxy. */
  readonly isShared: boolean
  /** Whether the address is unknown. Then only budgets of a DID count, and all such callers have one. */
  readonly isUnknown?: boolean
  /** Returns the description that a new session stores. It never throws. Undefined: sessions have none. */
  readonly describe?: (() => string | undefined) | undefined
}

/** Parts from which budgets are computed. */
type BudgetParts = { settings: Pick<Settings, 'maxRequestsPerTimeSlot'> }
type ChargeParts = BudgetParts & { quotas: Pick<Quotas, 'charge'>; store: QuotaStore }

/** Charges a request to an authenticated user. Reads that a foreign page caused have a separate quota. */
export function chargeUser(parts: ChargeParts, user: string, isForeignRead = false): Promise<void> {
  const name = isForeignRead ? `${user} foreign` : user
  return parts.quotas.charge(parts.store, { budget: 'requests', name, limit: parts.settings.maxRequestsPerTimeSlot })
}

/** Charges a refused device proof to its session. A valid proof is accepted even if this quota is used up. */
export function chargeDeviceProof(parts: ChargeParts, sessionId: string): Promise<void> {
  const quota = { budget: 'deviceProofs', name: `device ${sessionId}` } as const
  return parts.quotas.charge(parts.store, { ...quota, limit: parts.settings.maxRequestsPerTimeSlot })
}

/**
 * Charges a request to the networks of its caller, the smallest first. A request that one of them refuses is not
 * charged to the larger ones.
 * @param did - DID of the request, for a budget per network and DID
 * @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_STORE
 */
export async function charge(parts: ChargeParts, caller: Caller, budget: Budget, did?: string): Promise<void> {
  for (const quota of listQuotas(parts, caller, budget, did)) await parts.quotas.charge(parts.store, quota)
}

/**
 * Charges a token of a machine to the logins of its client network. If that is unknown or hidden by a proxy, all such
 * machines share a budget of their own. Fresh DIDs then fill no store, and users can still log in.
 * @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_STORE
 */
export function chargeMachine(parts: ChargeParts, caller: Caller): Promise<void> {
  return charge(parts, caller, caller.isShared || caller.isUnknown === true ? 'machines' : 'logins')
}

/** Asserts that the client network has budget left for logins and failed proofs, without charging it. */
export function assertProofBudget(parts: BudgetParts & { quotas: Pick<Quotas, 'assertLeft'> }, caller: Caller): void {
  for (const budget of ['failedProofs', 'logins'] as const) {
    for (const quota of listQuotas(parts, caller, budget)) parts.quotas.assertLeft(quota)
  }
}

/** Reports and charges a refused proof, as the table of error codes says. */
export async function chargeRefusal(
  parts: ChargeParts & { report: ((event: Omit<SecurityEvent, 'atSeconds'>) => void) | undefined },
  { did, client }: { did?: string | undefined; client: Caller },
  error: unknown
): Promise<void> {
  if (!(error instanceof DidAuthError)) return
  const { code } = error
  const kind = refusalCharges[code]
  if (kind === undefined) return
  const event = { type: 'proof-refused', code, clientNetwork: client.network } as const
  parts.report?.(did === undefined ? event : { ...event, did })
  await charge(parts, client, 'failedProofs')
  if (did !== undefined && kind === 'unproved') await charge(parts, client, 'didRequests', did)
}

function listQuotas({ settings }: BudgetParts, caller: Caller, budget: Budget, did?: string): Quota[] {
  if (caller.isShared && UNCHARGED_IF_SHARED.has(budget)) return []
  if (caller.isUnknown === true && did === undefined && budget !== 'machines') return []
  const limit = budget === 'contracts' ? CONTRACT_PROOFS : settings.maxRequestsPerTimeSlot * FACTORS[budget]
  const label = did === undefined ? budget : `${budget} ${canonicalDid(did)}`
  return caller.networks.map(({ network, factor }) => ({ budget, name: `${label} ${network}`, limit: limit * factor }))
}

/**
 * Creates the quotas of one service. The store gets names only as HMACs, so that it contains no client address. Quotas
 * that are used up are cached in memory, so that refusals need no call to the store.
 */
export function createServiceQuotas(
  clock: Clock,
  { serviceUrl, challengeSecret, timeSlotSeconds }: Pick<Settings, 'serviceUrl' | 'challengeSecret' | 'timeSlotSeconds'>
): Quotas {
  const hmacKey = createHmac('sha256', challengeSecret).update(`quota-keys\n${serviceUrl}`).digest()
  /** Cached quota keys by name. An HMAC per request would cost more than the rest of the guard. */
  const keys = new RecentEntries<string>()
  /** Times at which used up quotas reset, by key. */
  const usedUp = new RecentEntries<number>()
  let clearedAtSeconds = -Infinity

  /** Clears the caches once per time slot, so that client addresses stay in memory for at most two slots. */
  const clearOncePerSlot = (nowSeconds: number): void => {
    if (Math.abs(nowSeconds - clearedAtSeconds) < timeSlotSeconds) return
    clearedAtSeconds = nowSeconds
    keys.clear()
    usedUp.clear()
  }

  const computeKey = (name: string): string => {
    const cachedKey = keys.get(name)
    if (cachedKey !== undefined) return cachedKey
    const key = createHmac('sha256', hmacKey).update(name).digest('base64url').slice(0, KEY_CHARACTERS)
    keys.set(name, key)
    return key
  }

  const assertNotUsedUp = (quota: Quota, key: string, nowSeconds: number): void => {
    const resetsAtSeconds = usedUp.get(key) ?? -Infinity
    if (nowSeconds < resetsAtSeconds) throw createLimitError(quota, resetsAtSeconds - nowSeconds)
  }

  return {
    async charge(store, quota) {
      const { budget, name, limit } = quota
      const nowSeconds = clock.nowSeconds()
      clearOncePerSlot(nowSeconds)
      const key = computeKey(name)
      assertNotUsedUp(quota, key, nowSeconds)
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
    assertLeft: (quota) => assertNotUsedUp(quota, computeKey(quota.name), clock.nowSeconds())
  }
}

function createLimitError({ budget, limit }: Quota, seconds: number): DidAuthError {
  const reason = { check: 'quota', budget, limit, option: 'maxRequestsPerTimeSlot' }
  return new DidAuthError('ERR_TOO_MANY_REQUESTS', { retryAfterSeconds: Math.max(1, seconds), reason })
}
