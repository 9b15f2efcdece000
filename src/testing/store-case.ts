import { createHash } from 'node:crypto'
import type { ChallengeUse, NewSession, QuotaCharge, Rotation, Store } from '../ports.js'

/** Bounds that a case needs; a store that knows them is to be made with them. Both are far lower than any default. */
export interface StoreBounds {
  maxChallengeUses?: number
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

/** The hash of a refresh token that a case calls by a name. */
export function hashOf(name: string): string {
  return createHash('sha256').update(name).digest('base64url')
}

/** A session called `name`, with a refresh token of that name, that lasts an hour. */
export function sessionOf(name: string, details: Partial<NewSession> = {}): NewSession {
  return {
    service,
    sessionId: `session-${name}`,
    did,
    refreshTokenHash: hashOf(name),
    tokenClaims: undefined,
    nowSeconds: START_SECONDS,
    expiresAtSeconds: START_SECONDS + 3600,
    ...details
  }
}

/** The exchange of one token for another, 10 s after the start, for an hour more. */
export function rotationOf(presented: string, next: string, details: Partial<Rotation> = {}): Rotation {
  return {
    service,
    presentedHash: hashOf(presented),
    nextHash: hashOf(next),
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
    spendsBoth: false,
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

/** Makes `count` calls at once, every second one on the other store object. */
export function allAtOnce<T>(
  { store, other }: { store: Store; other: Store },
  count: number,
  call: (store: Store, index: number) => Promise<T>
): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => call(index % 2 === 0 ? store : other, index)))
}
