import { Buffer } from 'node:buffer'
import { createHmac } from 'node:crypto'
import { DidAuthError } from '../errors.js'
import { canonicalDid } from '../protocol/did.js'
import { hashRefreshToken, isTokenOf, type StoredSession } from '../protocol/session.js'
import type { Parts } from './parts.js'

const USER_TAG_BYTES = 6
const SESSION_RANDOM_BYTES = 12
const SECRET_BYTES = 32

const REFRESH_TOKEN = /^([A-Za-z0-9_-]{1,64})\.[A-Za-z0-9_-]{43}$/

/** A refresh token, and its SHA-256 in base64url, under which it is kept. */
export interface RefreshToken {
  token: string
  hash: string
}

/** Base64url of 6 bytes of SHA-256 of the canonical DID, which name the user's shard, and 12 random bytes. */
export function newSessionId({ curve, random }: Pick<Parts, 'curve' | 'random'>, did: string): string {
  const userTag = curve.sha256(canonicalDid(did)).subarray(0, USER_TAG_BYTES)
  return Buffer.from(userTag).toString('base64url') + random.id(SESSION_RANDOM_BYTES)
}

/** Draws a refresh token of a session: `<sessionId>.<32 random bytes, base64url>`. */
export function newRefreshToken({ curve, random }: Pick<Parts, 'curve' | 'random'>, sessionId: string): RefreshToken {
  return refreshToken(curve, sessionId, random.id(SECRET_BYTES))
}

/**
 * The token that replaces another in a request with an `Idempotency-Key`. The same token and key give the same
 * successor, so that a repeated request gets the same answer. Computing it needs the service's secret.
 */
export function successorToken(
  { curve, settings }: Pick<Parts, 'curve' | 'settings'>,
  { token, sessionId }: { token: string; sessionId: string },
  idempotencyKey: string
): RefreshToken {
  const { challengeSecret, serviceUrl } = settings
  const secret = createHmac('sha256', challengeSecret).update(`refresh-successor\n${serviceUrl}`).digest()
  const successor = createHmac('sha256', secret).update(`${token}\n${idempotencyKey}`).digest('base64url')
  return refreshToken(curve, sessionId, successor)
}

/** The session of a token, in whatever state. @throws DidAuthError ERR_REFRESH_TOKEN when it is unknown, ERR_STORE */
export async function findPresentedSession(
  { settings, curve, store }: Pick<Parts, 'settings' | 'curve' | 'store'>,
  received: unknown
): Promise<{ presented: RefreshToken; session: StoredSession }> {
  const sessionId = typeof received === 'string' ? REFRESH_TOKEN.exec(received)?.[1] : undefined
  if (typeof received !== 'string' || sessionId === undefined) throw refused('form', typeof received)
  const presented = { token: received, hash: hashRefreshToken(curve, received) }
  const session = await store.findSession(settings.serviceUrl, sessionId)
  if (session === undefined) throw refused('session', 'unknown')
  if (!isTokenOf(session, presented.hash)) throw refused('secret', 'unknown')
  return { presented, session }
}

function refreshToken(curve: Parts['curve'], sessionId: string, secret: string): RefreshToken {
  const token = `${sessionId}.${secret}`
  return { token, hash: hashRefreshToken(curve, token) }
}

function refused(check: string, got: string): DidAuthError {
  return new DidAuthError('ERR_REFRESH_TOKEN', { reason: { check, expected: 'a refresh token of a session', got } })
}
