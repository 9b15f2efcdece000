import type { Request } from 'express'
import type { Settings } from '../config/settings.js'
import type { Logger, Quota, Quotas } from '../ports.js'
import { canonicalDid } from '../protocol/did.js'
import { countedNetworks, isBehindUnknownProxy } from './client-network.js'
import { isForeignPage, isSafeMethod } from './guard-csrf.js'

/** How much larger than a user's own quota these budgets are. */
const FACTORS = { namings: 10, proofs: 100, logins: 50 } as const

/** The limits of requests. Each rejects with ERR_TOO_MANY_REQUESTS or ERR_STORE. */
export interface RequestLimits {
  /** Counts a request of a user who is authenticated. */
  chargeUser(req: Request, canonicalDid: string): Promise<void>
  /** Counts a request that names a DID without proof. */
  chargeAnonymous(req: Request, did: string): Promise<void>
  /** Asserts that the client network has budget left for logins and for refused proofs. Counts nothing. @throws DidAuthError */
  assertProofBudget(req: Request): void
  /** Counts a proof that was refused; one that proves nothing counts as a request that names a DID as well. */
  chargeRefusedProof(req: Request, did: string, isUnproved: boolean): Promise<void>
  /** Counts a login whose proof is good. */
  chargeLogin(req: Request): Promise<void>
}

interface LimitParts {
  settings: Pick<Settings, 'maxRequestsPerTimeSlot' | 'trustedOrigins'>
  quotas: Quotas
  logger: Logger
}

/**
 * Makes the limits: a user's own quota, which a stranger cannot use up, and budgets by client network for requests without
 * proof, so that no client locks another out. Requests that a foreign page makes a browser send are counted apart, so that
 * no page locks its visitor out.
 */
export function requestLimits({ settings, quotas, logger }: LimitParts): RequestLimits {
  const { maxRequestsPerTimeSlot, trustedOrigins } = settings
  let warnedOfProxy = false

  const networksOf = (req: Request): { network: string; factor: number }[] => {
    if (!warnedOfProxy && isBehindUnknownProxy(req)) {
      warnedOfProxy = true
      const message = "X-Forwarded-For seen, but the app's `trust proxy` is off: all callers share one address"
      logger.warn({ event: 'trust-proxy-off' }, message)
    }
    const suffix = isForeignPage(req, trustedOrigins) ? ' foreign' : ''
    return countedNetworks(req.ip ?? '').map(({ network, factor }) => ({ network: network + suffix, factor }))
  }

  const anonymous = (req: Request, budget: keyof typeof FACTORS, owner = ''): Quota[] =>
    networksOf(req).map(({ network, factor }) => ({
      budget,
      kind: 'anonymous',
      name: `${budget} ${owner}${network}`,
      limit: maxRequestsPerTimeSlot * FACTORS[budget] * factor
    }))

  /** The smaller network first: what it is refused does not count for the larger one. */
  const charge = async (counted: Quota[]): Promise<void> => {
    for (const quota of counted) await quotas.charge(quota)
  }

  const assertLeft = (counted: Quota[]): void => {
    for (const quota of counted) quotas.assertLeft(quota)
  }

  const chargeAnonymous = (req: Request, did: string): Promise<void> =>
    charge(anonymous(req, 'namings', `${canonicalDid(did)} `))

  return {
    chargeUser(req, user) {
      const isForeign = isSafeMethod(req) && isForeignPage(req, trustedOrigins)
      return quotas.charge({
        budget: 'requests',
        kind: 'request',
        name: isForeign ? `${user} foreign` : user,
        limit: maxRequestsPerTimeSlot
      })
    },
    chargeAnonymous,
    assertProofBudget(req) {
      assertLeft(anonymous(req, 'proofs'))
      if (!isBehindUnknownProxy(req)) assertLeft(anonymous(req, 'logins'))
    },
    async chargeRefusedProof(req, did, isUnproved) {
      await charge(anonymous(req, 'proofs'))
      if (isUnproved) await chargeAnonymous(req, did)
    },
    async chargeLogin(req) {
      // Behind a proxy that is not trusted, all users would share one budget.
      if (!isBehindUnknownProxy(req)) await charge(anonymous(req, 'logins'))
    }
  }
}
