import { ProtocolError } from './errors.js'
import { parseJson } from './service-calls.js'
import { fieldOf } from './wallet.js'

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
  /** Idempotency key of a refresh that was sent and perhaps not answered. */
  readonly key?: string
}

/** What a pair of tokens says, or `GET /session`. */
export type ReceivedSession = Omit<SessionRecord, 'pair' | 'key' | 'receivedAt'>

/** @throws ProtocolError when the body is not `{ accessToken, refreshToken }` of this protocol */
export function parseTokens(body: unknown): Omit<SessionRecord, 'receivedAt'> {
  const [accessToken, refreshToken] = ['accessToken', 'refreshToken'].map((name) => fieldOf(body, name))
  if (!isToken(accessToken) || !isToken(refreshToken)) {
    throw new ProtocolError({
      message: "The service sent no tokens: does it use cookies, and this client no mode: 'cookie'?"
    })
  }
  const claims = decodeJwt(accessToken)
  const [did, sessionId, exp, iat] = ['sub', 'sid', 'exp', 'iat'].map((name) => fieldOf(claims, name))
  if (!isText(did) || !isText(sessionId) || !isSeconds(exp) || !isSeconds(iat)) {
    throw new ProtocolError({ message: 'The service sent an access token of another kind' })
  }
  return { did, sessionId, expiresAt: exp, lifeSeconds: exp - iat, accessToken, pair: refreshToken }
}

/** @returns undefined for `{}`: there is no session. @throws ProtocolError */
export function parseOwnSession(body: unknown): ReceivedSession | undefined {
  const names = ['did', 'sessionId', 'expiresAt', 'expiresInSeconds']
  const [did, sessionId, expiresAt, lifeSeconds] = names.map((name) => fieldOf(body, name))
  if (isText(did) && isText(sessionId) && isSeconds(expiresAt) && isSeconds(lifeSeconds)) {
    return { did, sessionId, expiresAt, lifeSeconds }
  }
  if (typeof body === 'object' && body !== null && did === undefined) return undefined
  throw new ProtocolError({ message: 'GET /session answered something else than a session' })
}

/** What the storage has; undefined for what is no record. */
export function parseRecord(text: string | null | undefined): SessionRecord | undefined {
  const found = parseJson(text)
  const [did, sessionId, pair] = ['did', 'sessionId', 'pair'].map((name) => fieldOf(found, name))
  const numbers = ['expiresAt', 'lifeSeconds', 'receivedAt'].map((name) => fieldOf(found, name))
  const [accessToken, key] = ['accessToken', 'key'].map((name) => fieldOf(found, name))
  const isRecord =
    [did, sessionId, pair].every(isText) &&
    numbers.every((value) => typeof value === 'number') &&
    [accessToken, key].every((value) => value === undefined || isText(value))
  return isRecord ? (found as SessionRecord) : undefined
}

/** The payload of a JWT, unverified: the service is the one that verifies. */
export function decodeJwt(jwt: string): unknown {
  const payload = (jwt.split('.')[1] ?? '').replaceAll('-', '+').replaceAll('_', '/')
  try {
    const bytes = Uint8Array.from(atob(payload), (character) => character.charCodeAt(0))
    return parseJson(new TextDecoder().decode(bytes))
  } catch {
    return undefined
  }
}

function isToken(value: unknown): value is string {
  return isText(value) && value.length <= MAX_TOKEN_LENGTH
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

function isSeconds(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && Number.isSafeInteger(value)
}
