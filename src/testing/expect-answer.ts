import { deepEqual } from 'node:assert/strict'
import { inspect } from 'node:util'
import type { Session, StoredSession } from '../protocol/session.js'

/** How often each answer was given. */
export function tally(answers: readonly string[]): Record<string, number> {
  return Object.fromEntries([...new Set(answers)].map((one) => [one, answers.filter((other) => other === one).length]))
}

/**
 * Compares what a store answered with what the port promises.
 *
 * @param promise - a sentence that is true of a good store
 * @throws AssertionError that says the sentence and the difference
 */
export function expectAnswer(actual: unknown, expected: unknown, promise: string): void {
  const written = (value: unknown): string => inspect(value, { depth: 4, breakLength: Infinity, maxArrayLength: 60 })
  deepEqual(actual, expected, `${promise}: ${written(expected)} expected, got ${written(actual)}`)
}

/** The fields of a session, whatever else a store's object has. */
export function fieldsOf(session: Session | undefined): object | undefined {
  if (session === undefined) return undefined
  const { sessionId, did, state, createdAtSeconds, rotatedAtSeconds, expiresAtSeconds } = session
  return {
    sessionId,
    did,
    state,
    tokenClaims: claimsOf(session),
    createdAtSeconds,
    rotatedAtSeconds,
    expiresAtSeconds
  }
}

/** The claims of a session as plain objects of this realm: under Jest those of `structuredClone` are of another. */
export function claimsOf(session: Session | undefined): unknown {
  if (session?.tokenClaims === undefined) return undefined
  const claims: unknown = JSON.parse(JSON.stringify(session.tokenClaims))
  return claims
}

/** The fields of a stored session; replaced tokens oldest first, with the 24 characters of their hash that count. */
export function storedFieldsOf(session: StoredSession | undefined): object | undefined {
  if (session === undefined) return undefined
  const replacedTokens = Array.from(session.replacedTokens, ({ hash, replacedAtSeconds }) => ({
    hash: hash.slice(0, 24),
    replacedAtSeconds
  })).sort((a, b) => a.replacedAtSeconds - b.replacedAtSeconds || (a.hash < b.hash ? -1 : 1))
  return { ...fieldsOf(session), refreshTokenHash: session.refreshTokenHash, replacedTokens }
}

/** Writes to an object that a store answered. A frozen one stays as it is. */
export function tamper(given: object | undefined, fields: Record<string, unknown>): void {
  if (given === undefined) return
  for (const [name, value] of Object.entries(fields)) Reflect.set(given, name, value)
}
