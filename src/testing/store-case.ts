import { deepEqual } from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { inspect } from 'node:util'
import type { ChallengeUse, NewSession, QuotaCharge, Rotation, Store } from '../ports.js'
import type { RefreshVerdict, Session, StoredSession } from '../protocol/session.js'

/** Bounds that a case needs, far lower than any default. A store without one of them is never full, and ignores it. */
export interface StoreBounds {
  /** Sessions of a service. Needed by the cases on eviction; what is not evicted has to be counted so by any store. */
  maxSessions?: number
  /** Users and windows whose uses are remembered. Needed by the case on `full`. */
  maxChallengeUses?: number
  /** Quotas of each kind. Needed by the case on the quotas of strangers. */
  maxQuotas?: number
}

/** Empty store that a case works on. */
export interface StoreUnderTest {
  store: Store
  /** A second store object on the same data, as another instance of the application has it. */
  another?: Store
  /** Removes the data after both are closed. */
  remove?: () => unknown
}

/** One promise of the port, and how it is proved. */
export interface StoreCase {
  name: string
  bounds: StoreBounds
  test: (bench: Bench) => Promise<void>
}

export function createBoundedCase(name: string, bounds: StoreBounds, test: StoreCase['test']): StoreCase {
  return { name, bounds, test }
}
export const storeCase = (name: string, test: StoreCase['test']): StoreCase => createBoundedCase(name, {}, test)

/** Seconds since the Unix epoch. All times below are counted from it. */
export const START_SECONDS = 1_800_000_000
export const service = 'https://service.example'
export const anotherService = 'https://another.example'
export const did = 'did:ethr:rsk:0x00000000000000000000000000000000000000aa'
export const anotherDid = 'did:ethr:rsk:0x00000000000000000000000000000000000000bb'

/** `at` and `until` are seconds after the start; other fields take the place of the usual ones. */
type Details<T> = Partial<T> & { at?: number; until?: number }

/** Creates a session called `name`, with its token 0, that lasts an hour. */
export function createSession(name: string, { at = 0, until = 3600, ...fields }: Details<NewSession> = {}): NewSession {
  const session = { service, sessionId: `session-${name}`, did, refreshTokenHash: hashToken(name, 0) }
  const times = { nowSeconds: START_SECONDS + at, expiresAtSeconds: START_SECONDS + until }
  return { ...session, tokenClaims: undefined, ...times, ...fields }
}

type Token = number | string

/** Creates the exchange of a session's token for another, 10 s after the start, for an hour more. */
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

/** Creates a request counted in a time slot of 60 s. */
export function createCharge({ at = 0, ...fields }: Details<QuotaCharge> = {}): QuotaCharge {
  const charge = { service, kind: 'request', key: did, cost: 1, timeSlotSeconds: 60 } as const
  return { ...charge, nowSeconds: START_SECONDS + at, ...fields }
}

/** Returns the hash of a refresh token. A session begins with token 0. */
export function hashToken(session: string, token: Token): string {
  return createHash('sha256').update(`${session} ${token}`).digest('base64url')
}

/** A rotation and its verdict. */
type RotationRow = [name: string, presented: Token, next: Token, verdict: RefreshVerdict, details?: Details<Rotation>]

/** Two store objects on the same data, or one twice, and what cases do with them. */
export type Bench = ReturnType<typeof createBench>

/** Sends calls of verbs to the two store objects in turn. @param name - of the case: what a valid store does */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- `Bench` is what it returns
export function createBench(store: Store, other: Store, name: string) {
  let calls = 0
  /**
   * Compares as JSON: objects of `structuredClone` are of another realm under Jest; what is undefined may be absent.
   * @param promise - a sentence that is true of a valid store; the AssertionError has it, and the difference
   */
  const expect = (actual: unknown, expected: unknown, promise = `A store ${name}`): void => {
    const written = (value: unknown): string => inspect(value, { depth: 4, breakLength: Infinity, maxArrayLength: 60 })
    const plain = (value: unknown): unknown => (value === undefined ? value : JSON.parse(JSON.stringify(value)))
    deepEqual(plain(actual), plain(expected), `${promise}: ${written(expected)} expected, got ${written(actual)}`)
  }
  const next = (): Store => ((calls += 1) % 2 === 1 ? store : other)
  const rotate = (...[session, presented, to, details]: Parameters<typeof createRotation>): Promise<RefreshVerdict> =>
    next().rotateRefreshToken(createRotation(session, presented, to, details))
  const find = (name: string, of = service): Promise<StoredSession | undefined> =>
    next().findSession(of, `session-${name}`)
  return {
    store,
    other,
    expect,
    rotate,
    create: (name: string, details?: Details<NewSession>): Promise<number> =>
      next().createSession(createSession(name, details)),
    end: (name: string, state: 'loggedOut' | 'revoked' = 'loggedOut', at = 0): Promise<boolean> =>
      next().endSession(service, `session-${name}`, state, START_SECONDS + at),
    revoke: (at = 0, of = service): Promise<number> => next().revokeSessions(of, did, START_SECONDS + at),
    find,
    read: async (name: string): Promise<object | undefined> => toStoredFields(await find(name)),
    stateOf: async (name: string): Promise<string | undefined> => (await find(name))?.state,
    /** The names of the user's sessions, in the order of the list. */
    list: async (at = 0): Promise<string[]> =>
      (await next().listSessions(service, did, START_SECONDS + at)).map(({ sessionId }) => sessionId.slice(8)),
    use: (details?: Details<ChallengeUse>): Promise<string> => next().consumeChallenge(createUse(details)),
    counts: (details?: Details<ChallengeUse>): Promise<object> => next().countChallengeUses(createUse(details)),
    charge: async (details?: Details<QuotaCharge>): Promise<{ isCharged: boolean; count: number; endsAt: number }> => {
      const { isCharged, count, resetsAtSeconds } = await next().chargeQuota(createCharge(details))
      return { isCharged, count, endsAt: resetsAtSeconds - START_SECONDS }
    },
    /** Rotates one after the other, and compares the verdicts. */
    rotations: async (...rows: RotationRow[]): Promise<void> => {
      const verdicts: string[] = []
      for (const [name, presented, to, , details] of rows) verdicts.push(await rotate(name, presented, to, details))
      const expected = rows.map(([, , , verdict]) => verdict)
      expect(verdicts, expected)
    },
    /** Makes calls at once, every second one on the other store object. @throws AssertionError when one is rejected */
    allAtOnce: async <T>(count: number, call: (store: Store, index: number) => Promise<T>): Promise<T[]> => {
      const started = Array.from({ length: count }, (_, index) => call(index % 2 === 0 ? store : other, index))
      const outcomes = await Promise.allSettled(started)
      const reasons = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [String(outcome.reason)] : []))
      expect([...new Set(reasons)], [], `None of ${count} calls that come at once is rejected, as by a deadlock`)
      return outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))
    }
  }
}

/** Counts how often each answer was given. */
export function countAnswers(answers: readonly string[]): Record<string, number> {
  return Object.fromEntries([...new Set(answers)].map((one) => [one, answers.filter((other) => other === one).length]))
}

/** Returns the fields of a session, whatever else a store's object has. */
export function toFields(session: Session | undefined): object | undefined {
  if (session === undefined) return undefined
  const { sessionId, did, state, tokenClaims, createdAtSeconds, rotatedAtSeconds, expiresAtSeconds } = session
  return { sessionId, did, state, tokenClaims, createdAtSeconds, rotatedAtSeconds, expiresAtSeconds }
}

/** Returns the fields of a stored session: replaced tokens oldest first, with the 24 relevant characters of a hash. */
function toStoredFields(session: StoredSession | undefined): object | undefined {
  if (session === undefined) return undefined
  const replacedTokens = session.replacedTokens
    .map(({ hash, replacedAtSeconds }) => ({ hash: hash.slice(0, 24), replacedAtSeconds }))
    .sort((a, b) => a.replacedAtSeconds - b.replacedAtSeconds || (a.hash < b.hash ? -1 : 1))
  return { ...toFields(session), refreshTokenHash: session.refreshTokenHash, replacedTokens }
}

/** Writes to an object that a store answered. A frozen one stays as it is. */
export function tamper(given: object | undefined, fields: Record<string, unknown>): void {
  if (given === undefined) return
  for (const [name, value] of Object.entries(fields)) Reflect.set(given, name, value)
}
