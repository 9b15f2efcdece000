import { DidAuthError, type DidAuthErrorCode } from '../errors.js'
import type { Quota, Quotas, QuotaStore } from '../ports.js'
import { canonicalDid } from '../protocol/did.js'
import type { Caller, Parts } from './parts.js'

// A user's own quota, which a stranger cannot use up, and budgets by client network for requests without proof, so that
// no client locks another out. Each limit rejects with ERR_TOO_MANY_REQUESTS or ERR_STORE.

type LimitParts = Pick<Parts, 'settings' | 'quotas' | 'store'>

/** How much larger than a user's own quota these budgets are. */
const FACTORS = { namings: 10, proofs: 100, logins: 50, nonces: 50 } as const

/** Proofs that a chain is asked about, for one client network: each is several calls to its node. */
const CONTRACT_PROOFS = 30

type Budget = keyof typeof FACTORS | 'contracts'

/** Refusals that cost us work and the sender nothing: the challenge stays, and the same body can be sent again. */
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

/** Signatures that were good once: they count against the client network alone, and tell a client to retry. */
const OUTDATED: ReadonlySet<DidAuthErrorCode> = new Set([
  'ERR_CHALLENGE_EXPIRED',
  'ERR_CHALLENGE_USED',
  // The signature is good, yet the challenge is not consumed: the same body costs us the same work again.
  'ERR_DISCLOSURE_MISSING'
])

/** Counts a request of a user who is authenticated; what a foreign page makes a browser read is counted apart. */
export function chargeUser(parts: LimitParts, user: string, isForeignRead: boolean): Promise<void> {
  const { settings, quotas, store } = parts
  const name = isForeignRead ? `${user} foreign` : user
  return quotas.charge({ budget: 'requests', kind: 'request', name, limit: settings.maxRequestsPerTimeSlot }, store)
}

/** Counts a request that names a DID without proof. */
export function chargeAnonymous(parts: LimitParts, caller: Caller, did: string): Promise<void> {
  return charge(parts, caller, 'namings', `${canonicalDid(did)} `)
}

/** Asserts that the client network has budget left for logins and for refused proofs. It counts nothing. */
export function assertProofBudget(parts: LimitParts, caller: Caller): void {
  const budgets = caller.isShared ? (['proofs'] as const) : (['proofs', 'logins'] as const)
  for (const budget of budgets) {
    for (const quota of quotasOf(caller, budget, limitOf(parts, budget))) parts.quotas.assertLeft(quota)
  }
}

/** Counts a proof that was tried in vain. */
export function chargeProof(parts: LimitParts, caller: Caller): Promise<void> {
  return charge(parts, caller, 'proofs')
}

/** Counts a proof that a chain is asked about. */
export function chargeContractProof(parts: LimitParts, caller: Caller): Promise<void> {
  return charge(parts, caller, 'contracts')
}

/** Counts a login whose proof is good. */
export async function chargeLogin(parts: LimitParts, caller: Caller): Promise<void> {
  if (!caller.isShared) await charge(parts, caller, 'logins')
}

/** Counts a nonce that a client asks for: page after page does, whether or not its visitor logs in. */
export async function chargeNonce(parts: LimitParts, caller: Caller): Promise<void> {
  if (!caller.isShared) await charge(parts, caller, 'nonces')
}

/** Reports and counts a refused proof; one that proves nothing counts as a request that names a DID as well. */
export async function chargeRefusal(
  parts: LimitParts & Pick<Parts, 'report'>,
  { did, client }: { did?: string | undefined; client: Caller },
  error: unknown
): Promise<void> {
  if (!(error instanceof DidAuthError)) return
  const { code } = error
  if (!UNPROVED.has(code) && !OUTDATED.has(code)) return
  const event = { type: 'proof-refused', code, clientNetwork: client.network } as const
  parts.report(did === undefined ? event : { ...event, did })
  await chargeProof(parts, client)
  if (did !== undefined && UNPROVED.has(code)) await chargeAnonymous(parts, client, did)
}

function charge(parts: LimitParts, caller: Caller, budget: Budget, owner?: string): Promise<void> {
  return chargeNetworks(parts, caller, budget, limitOf(parts, budget), owner)
}

/**
 * Counts a request for the networks of a stranger, the smaller first: what it is refused does not count for the larger
 * one.
 *
 * @param limit - of the smallest network
 * @param owner - of a budget that a network has for each of them; with a space at its end
 * @throws DidAuthError ERR_TOO_MANY_REQUESTS, ERR_STORE
 */
export async function chargeNetworks(
  { quotas, store }: { quotas: Pick<Quotas, 'charge'>; store?: QuotaStore },
  caller: Caller,
  budget: Quota['budget'],
  limit: number,
  owner?: string
): Promise<void> {
  for (const quota of quotasOf(caller, budget, limit, owner)) await quotas.charge(quota, store)
}

function limitOf({ settings }: LimitParts, budget: Budget): number {
  return budget === 'contracts' ? CONTRACT_PROOFS : settings.maxRequestsPerTimeSlot * FACTORS[budget]
}

function quotasOf({ networks }: Caller, budget: Quota['budget'], limit: number, owner = ''): readonly Quota[] {
  return networks.map(({ network, factor }) => ({
    budget,
    kind: 'anonymous',
    name: `${budget} ${owner}${network}`,
    limit: limit * factor
  }))
}
