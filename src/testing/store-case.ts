import { createHash } from 'node:crypto'
import type { ChallengeUse, NewSession, QuotaCharge, Rotation, Store } from '../ports.js'
import { expectAnswer } from './expect-answer.js'

/**
 * Bounds that a case needs; a store that has them is to be made with them. All are far lower than any default.
 *
 * A store without one of these bounds ignores it, and keeps the promise of the cases below it by never being full.
 */
export interface StoreBounds {
  /** Sessions of a service. Needed by the cases on eviction; what is not evicted has to be counted as such by any store. */
  maxSessions?: number
  /** Users and windows whose uses are remembered. Needed by the case on `full`. */
  maxChallengeUses?: number
  /** Quotas of each kind. Needed by the case on the quotas of strangers. */
  maxQuotas?: number
}

/** What a case works on: an empty store. */
export interface StoreUnderTest {
  store: Store
  /** A second store object on the same data, as another instance of the application has it. */
  another?: Store
  /** Removes what is left after both are closed. */
  remove?: () => unknown
}

/** What a case does. `other` is the second store object where there is one, else the first again. */
export interface StoreCase {
  name: string
  bounds: StoreBounds
  test: (stores: { store: Store; other: Store }) => Promise<void>
}

/** States one promise of the port, and how it is proved. */
export function storeCase(name: string, test: StoreCase['test'], bounds: StoreBounds = {}): StoreCase {
  return { name, test, bounds }
}

/** A Tuesday, in seconds since the Unix epoch. */
export const START_SECONDS = 1_800_000_000

export const service = 'https://service.example'
export const anotherService = 'https://another.example'
export const did = 'did:ethr:rsk:0x00000000000000000000000000000000000000aa'
export const anotherDid = 'did:ethr:rsk:0x00000000000000000000000000000000000000bb'

/** The hash of a refresh token of a session, both as a case calls them. A session begins with token 0. */
export function hashOf(session: string, token: number | string): string {
  return createHash('sha256').update(`${session} ${token}`).digest('base64url')
}

/** A session called `name`, with its token 0, that lasts an hour. */
export function sessionOf(name: string, details: Partial<NewSession> = {}): NewSession {
  return {
    service,
    sessionId: `session-${name}`,
    did,
    refreshTokenHash: hashOf(name, 0),
    tokenClaims: undefined,
    nowSeconds: START_SECONDS,
    expiresAtSeconds: START_SECONDS + 3600,
    ...details
  }
}

/** The exchange of a session's token for another, 10 s after the start, for an hour more. */
export function rotationOf(
  session: string,
  presented: number | string,
  next: number | string,
  details: Partial<Rotation> = {}
): Rotation {
  return {
    service,
    sessionId: `session-${session}`,
    presentedHash: hashOf(session, presented),
    nextHash: hashOf(session, next),
    tokenClaims: undefined,
    nowSeconds: START_SECONDS + 10,
    nextExpiresAtSeconds: START_SECONDS + 3610,
    graceSeconds: 10,
    ...details
  }
}

/** The first login in a window that ends 300 s after the start. */
export function useOf(details: Partial<ChallengeUse> = {}): ChallengeUse {
  return {
    service,
    did,
    window: 6_000_000,
    flow: 'logIn',
    useCount: 0,
    consumesBoth: false,
    nowSeconds: START_SECONDS,
    expiresAtSeconds: START_SECONDS + 300,
    ...details
  }
}

/** A request counted in a time slot of 60 s. */
export function chargeOf(details: Partial<QuotaCharge> = {}): QuotaCharge {
  return {
    service,
    kind: 'request',
    key: did,
    cost: 1,
    nowSeconds: START_SECONDS,
    timeSlotSeconds: 60,
    ...details
  }
}

/**
 * Makes `count` calls at once, every second one on the other store object, and waits for all of them.
 *
 * @throws AssertionError when a call is rejected
 */
export async function allAtOnce<T>(
  { store, other }: { store: Store; other: Store },
  count: number,
  call: (store: Store, index: number) => Promise<T>
): Promise<T[]> {
  const calls = Array.from({ length: count }, (_, index) => call(index % 2 === 0 ? store : other, index))
  const outcomes = await Promise.allSettled(calls)
  const reasons = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [String(outcome.reason)] : []))
  expectAnswer([...new Set(reasons)], [], `None of ${count} calls that come at once is rejected, as by a deadlock`)
  return outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
}

/** The ids of the sessions that a store lists of `did`, in its order. */
export async function sessionIdsOf(store: Store, nowSeconds: number): Promise<string[]> {
  return Array.from(await store.listSessions(service, did, nowSeconds), ({ sessionId }) => sessionId)
}
