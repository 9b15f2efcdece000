import type { NewSession } from '../../ports.js'
import type { JsonObject } from '../../protocol/json.js'
import type { ReplacedToken, Session, StoredSession } from '../../protocol/session.js'

/*
 * A session is a text of ten lines: state, created, rotated, expires, number, user, hash of the refresh token, replaced
 * tokens, DID, claims. The scripts of session-scripts.ts read it line by line; DID and claims are JSON, which has no line
 * break.
 */

const HASH_CHARACTERS = 24
const TIME_CHARACTERS = 9

/** Characters of a replaced token: the first 24 of its hash, and the time in base 36. */
export const REPLACED_CHARACTERS = HASH_CHARACTERS + TIME_CHARACTERS

/** The states, as they are written. */
export const STATES = { a: 'active', l: 'loggedOut', r: 'revoked' } as const satisfies Record<string, Session['state']>

/** How a state is written. */
export function writeState(state: Session['state']): string {
  return state.charAt(0)
}

/** A new session before a script gives it its number: the lines before the number and those after. */
export function writeSession(session: NewSession, user: string): [before: string, after: string] {
  const { did, refreshTokenHash, tokenClaims, nowSeconds, expiresAtSeconds } = session
  return [
    [writeState('active'), nowSeconds, nowSeconds, expiresAtSeconds].join('\n'),
    [user, refreshTokenHash, '', JSON.stringify(did), writeClaims(tokenClaims)].join('\n')
  ]
}

/** Claims as JSON, or nothing. */
export function writeClaims(claims: JsonObject | undefined): string {
  return claims === undefined ? '' : JSON.stringify(claims)
}

/** A replaced token as it is written: all are of one length, so that a script can cut off the oldest. */
export function writeReplaced(hash: string, replacedAtSeconds: number): string {
  return hash.slice(0, HASH_CHARACTERS) + replacedAtSeconds.toString(36).padStart(TIME_CHARACTERS, '0')
}

/** A session as it is read, with what only the store needs. */
export interface SessionRecord {
  session: StoredSession
  number: number
  user: string
}

/** Reads what a script wrote. */
export function parseSession(sessionId: string, record: string): SessionRecord {
  const [state, created, rotated, expires, number, user = '', hash = '', replaced = '', did = '""', claims = ''] =
    record.split('\n')
  return {
    session: {
      sessionId,
      did: JSON.parse(did) as string,
      state: STATES[state as keyof typeof STATES],
      tokenClaims: claims === '' ? undefined : (JSON.parse(claims) as JsonObject),
      createdAtSeconds: Number(created),
      rotatedAtSeconds: Number(rotated),
      expiresAtSeconds: Number(expires),
      refreshTokenHash: hash,
      replacedTokens: parseReplaced(replaced)
    },
    number: Number(number),
    user
  }
}

function parseReplaced(text: string): ReplacedToken[] {
  return Array.from({ length: Math.floor(text.length / REPLACED_CHARACTERS) }, (_, index) => {
    const token = text.slice(index * REPLACED_CHARACTERS, (index + 1) * REPLACED_CHARACTERS)
    const replacedAtSeconds = Number.parseInt(token.slice(HASH_CHARACTERS), 36)
    return { hash: token.slice(0, HASH_CHARACTERS), replacedAtSeconds }
  })
}
