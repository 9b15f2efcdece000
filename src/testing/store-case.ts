import { deepEqual } from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { inspect } from 'node:util'
import type { ChallengeUse, NewSession, QuotaCharge, Rotation, Store } from '../ports.js'
import type { RefreshVerdict, Session, StoredSession } from '../protocol/session.js'

/** Limits for a test, far lower than any default. A store without such a limit ignores it, and is never full. */
export interface StoreBounds {
  /** Maximum number of sessions per service, for tests of eviction. */
  maxSessions?: number
  /** Maximum number of users and windows with stored challenge uses, for the test of `full`. */
  maxChallengeUses?: number
  /** Maximum number of quotas of each kind, for the test of anonymous quotas. */
  maxQuotas?: number
}

/** Empty store for one test. */
export interface StoreUnderTest {
  /** The store under test. The suite closes it. */
  store: Store
  /** A second store object with the same data, like that of another instance of the application. */
  another?: Store
  /** Deletes the data after both objects are closed. */
  remove?: () => unknown
}

/** One requirement of the port, and its test. */
export interface StoreCase {
  name: string
  bounds: StoreBounds
  test: (bench: Bench) => Promise<void>
}

export function createBoundedCase(name: string, bounds: StoreBounds, test: StoreCase['test']): StoreCase {
  return { name, bounds, test }
}
export const storeCase = (name: string, test: StoreCase['test']): StoreCase => createBoundedCase(name, {}, test)

/** Start of all tests, in seconds since the Unix epoch. The times below are relative to it. */
export const START_SECONDS = 1_800_000_000
export const service = 'https://service.example'
export const anotherService = 'https://another.example'
export const did = 'did:ethr:rsk:0x00000000000000000000000000000000000000aa'
export const anotherDid = 'did:ethr:rsk:0x00000000000000000000000000000000000000bb'

/** Fields that replace the default ones. `at` and `until` are seconds after the start. */
type Details<T> = Partial<T> & { at?: number; until?: number }

/** Creates a session called `name` with token 0, which expires after an hour. */
export function createSession(name: string, { at = 0, until = 3600, ...fields }: Details<NewSession> = {}): NewSession {
  const session = { service, sessionId: `session-${name}`, did, refreshTokenHash: hashToken(name, 0) }
  const times = { nowSeconds: START_SECONDS + at, expiresAtSeconds: START_SECONDS + until }
  return { ...session, tokenClaims: undefined, ...times, ...fields }
}

type Token = number | string

/** Creates the exchange of a session's token for another, 10 s after the start, valid for an hour. */
export function createRotation(
  session: string,
  presented: Token,
  next: Token,
  { at = 10, until = 3610, ...fields }: Details<Rotation> = {}
): Rotation {
  const hashes = { presentedHash: hashToken(session, presented), nextHash: hashToken(session, next) }
  const times = { nowSeconds: START_SECONDS + at, nextExpiresAtSeconds: START_SECONDS + until, graceSeconds: 10 }
  return { service, sessionId: `session-${session}`, ...hashes, tokenClaims: undefined, ...times, ...fields }
}

/** Creates the first login in a window that ends 300 s after the start. */
export function createUse({ at = 0, until = 300, ...fields }: Details<ChallengeUse> = {}): ChallengeUse {
  const use = { service, did, window: 6_000_000, flow: 'logIn', useCount: 0, consumesBoth: false } as const
  return { ...use, nowSeconds: START_SECONDS + at, expiresAtSeconds: START_SECONDS + until, ...fields }
}

/** Creates the charge of a request in a time slot of 60 s. */
export function createCharge({ at = 0, ...fields }: Details<QuotaCharge> = {}): QuotaCharge {
  const charge = { service, kind: 'request', key: did, cost: 1, timeSlotSeconds: 60 } as const
  return { ...charge, nowSeconds: START_SECONDS + at, ...fields }
}

/** Returns the hash of a refresh token. A session begins with token 0. */
export function hashToken(session: string, token: Token): string {
  return createHash('sha256').update(`${session} ${token}`).digest('base64url')
}

/** A rotation and its expected verdict. */
type RotationRow = [name: string, presented: Token, next: Token, verdict: RefreshVerdict, details?: Details<Rotation>]

/** Tools of a test: two store objects with the same data (or one object twice), and functions that call them. */
export type Bench = ReturnType<typeof createBench>

/** Creates the tools of a test. Their calls alternate between the two store objects. @param name - name of the test */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- `Bench` is what it returns
export function createBench(store: Store, other: Store, name: string) {
  let calls = 0
  /**
   * Compares values as JSON, because `structuredClone` creates objects of another realm under Jest. Fields that are
   * undefined may be absent.
   * @param promise - sentence that is true of every valid store, for the message of the AssertionError
   */
  const expect = (actual: unknown, expected: unknown, promise = `A store ${name}`): void => {
    const format = (value: unknown): string => inspect(value, { depth: 4, breakLength: Infinity, maxArrayLength: 60 })
    const toJson = (value: unknown): unknown => (value === undefined ? value : JSON.parse(JSON.stringify(value)))
    deepEqual(toJson(actual), toJson(expected), `${promise}: ${format(expected)} expected, got ${format(actual)}`)
  }
  const next = (): Store => ((calls += 1) % 2 === 1 ? store : other)
  const rotate = (...[session, presented, to, details]: Parameters<typeof createRotation>): Promise<RefreshVerdict> =>
    next().rotateRefreshToken(createRotation(session, presented, to, details))
  const find = (name: string, ofService = service): Promise<StoredSession | undefined> =>
    next().findSession(ofService, `session-${name}`)
  return {
    store,
    other,
    expect,
    rotate,
    create: (name: string, details?: Details<NewSession>): Promise<number> =>
      next().createSession(createSession(name, details)),
    end: (name: string, state: 'loggedOut' | 'revoked' = 'loggedOut', at = 0): Promise<boolean> =>
      next().endSession(service, `session-${name}`, state, START_SECONDS + at),
    revoke: (at = 0, ofService = service): Promise<number> => next().revokeSessions(ofService, did, START_SECONDS + at),
    find,
    read: async (name: string): Promise<object | undefined> => toStoredFields(await find(name)),
    stateOf: async (name: string): Promise<string | undefined> => (await find(name))?.state,
    /** Lists the names of the user's sessions, in the order of the store. */
    list: async (at = 0): Promise<string[]> =>
      (await next().listSessions(service, did, START_SECONDS + at)).map(({ sessionId }) => sessionId.slice(8)),
    use: (details?: Details<ChallengeUse>): Promise<string> => next().consumeChallenge(createUse(details)),
    counts: (details?: Details<ChallengeUse>): Promise<object> => next().countChallengeUses(createUse(details)),
    charge: async (details?: Details<QuotaCharge>): Promise<{ isCharged: boolean; count: number; endsAt: number }> => {
      const { isCharged, count, resetsAtSeconds } = await next().chargeQuota(createCharge(details))
      return { isCharged, count, endsAt: resetsAtSeconds - START_SECONDS }
    },
    /** Rotates tokens one after the other, and compares the verdicts. */
    rotations: async (...rows: RotationRow[]): Promise<void> => {
      const verdicts: string[] = []
      for (const [name, presented, to, , details] of rows) verdicts.push(await rotate(name, presented, to, details))
      const expected = rows.map(([, , , verdict]) => verdict)
      expect(verdicts, expected)
    },
    /** Makes simultaneous calls, alternately on both store objects. @throws AssertionError if one is rejected */
    allAtOnce: async <T>(count: number, call: (store: Store, index: number) => Promise<T>): Promise<T[]> => {
      const started = Array.from({ length: count }, (_, index) => call(index % 2 === 0 ? store : other, index))
      const outcomes = await Promise.allSettled(started)
      const reasons = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [String(outcome.reason)] : []))
      expect(
        [...new Set(reasons)],
        [],
        `A store rejects none of ${count} simultaneous calls, for example because of a deadlock`
      )
      return outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
    }
  }
}

/** Counts how often each answer occurs. */
export function countAnswers(answers: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const answer of answers) counts[answer] = (counts[answer] ?? 0) + 1
  return counts
}

/** Returns the defined fields of a session, without further fields that a store's object may have. */
export function toFields(session: Session | undefined): object | undefined {
  if (session === undefined) return undefined
  const { sessionId, did, state, tokenClaims, createdAtSeconds, rotatedAtSeconds, expiresAtSeconds } = session
  return { sessionId, did, state, tokenClaims, createdAtSeconds, rotatedAtSeconds, expiresAtSeconds }
}

/** Returns the fields of a stored session, with the oldest replaced token first and hashes cut to 24 characters. */
function toStoredFields(session: StoredSession | undefined): object | undefined {
  if (session === undefined) return undefined
  const replacedTokens = session.replacedTokens
    .map(({ hash, replacedAtSeconds }) => ({ hash: hash.slice(0, 24), replacedAtSeconds }))
    .sort((a, b) => a.replacedAtSeconds - b.replacedAtSeconds || (a.hash < b.hash ? -1 : 1))
  return { ...toFields(session), refreshTokenHash: session.refreshTokenHash, replacedTokens }
}

/** Changes an object that a store returned. A frozen object stays unchanged. */
export function tamper(target: object | undefined, fields: Record<string, unknown>): void {
  if (target === undefined) return
  for (const [name, value] of Object.entries(fields)) Reflect.set(target, name, value)
}
