import { PROTOCOL } from './error-codes.js'
import { DidAuthClientError } from './errors.js'
import { isText, parseFields, parseJson } from './json.js'
import { decodeBase64url, textOf } from './seal.js'

/** Longer tokens than this are not of this protocol, and are not stored. */
const MAX_TOKEN_LENGTH = 8192

/** A session as the storage keeps it, as JSON. */
export interface SessionRecord {
  readonly did: string
  readonly sessionId: string
  /** `exp` of the access token, in whole seconds by the service's clock. */
  readonly expiresAt: number
  /** How long the access token was good when it was received: `exp - iat`, so that no clock of ours decides. */
  readonly lifeSeconds: number
  /** When it was received, by this machine's wall clock. */
  readonly receivedAt: number
  /** The refresh token. In cookie mode, where no script sees one, a random text that changes with it. */
  readonly pair: string
  /** Absent in cookie mode. */
  readonly accessToken?: string
}

/** What `GET /session` tells. */
export type ReceivedSession = Pick<SessionRecord, 'did' | 'sessionId' | 'expiresAt' | 'lifeSeconds'>

/** @throws DidAuthClientError PROTOCOL when the body is not `{ accessToken, refreshToken }` of this protocol */
export function parseTokens(body: unknown): Omit<SessionRecord, 'receivedAt'> {
  const { accessToken, refreshToken: pair } = parseFields(body)
  if (isToken(accessToken) && isToken(pair)) {
    const { sub: did, sid: sessionId, exp: expiresAt, iat } = decodeJwt(accessToken)
    const record = { did, sessionId, expiresAt, lifeSeconds: Number(expiresAt) - Number(iat), accessToken, pair }
    if (isSession(record)) return record
  }
  throw new DidAuthClientError(PROTOCOL, { message: "No tokens. With cookies, mode: 'cookie'" })
}

/** @returns undefined for `{}`: there is no session. @throws DidAuthClientError PROTOCOL */
export function parseOwnSession(body: unknown): ReceivedSession | undefined {
  const { did, sessionId, expiresAt, expiresInSeconds: lifeSeconds } = parseFields(body)
  const session = { did, sessionId, expiresAt, lifeSeconds }
  if (isSession(session)) return session
  if (body && !did) return undefined
  throw new DidAuthClientError(PROTOCOL, { message: 'No session' })
}

/** What the storage has; undefined for what is no record. */
export function parseRecord(text: string | null | undefined): SessionRecord | undefined {
  const found = parseFields(parseJson(text))
  return isText(found.pair) && isSession(found) ? (found as unknown as SessionRecord) : undefined
}

/** The payload of a JWT, unverified: the service is the one that verifies. */
export function decodeJwt(jwt: string): Readonly<Record<string, unknown>> {
  try {
    return parseFields(JSON.parse(textOf(decodeBase64url(jwt.split('.')[1] ?? ''))))
  } catch {
    return {}
  }
}

function isSession<T extends Partial<Record<keyof ReceivedSession, unknown>>>(value: T): value is T & ReceivedSession {
  const { did, sessionId, expiresAt, lifeSeconds } = value
  return isText(did) && isText(sessionId) && Number(expiresAt) >= 0 && Number(lifeSeconds) >= 0
}

function isToken(value: unknown): value is string {
  return isText(value) && value.length <= MAX_TOKEN_LENGTH
}
