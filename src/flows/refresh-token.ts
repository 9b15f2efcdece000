import { createHmac } from 'node:crypto'
import { encodeBase64url } from '../protocol/encode-base64url.js'
import { canonicalDid } from '../protocol/did.js'
import { hashRefreshToken } from '../protocol/session.js'
import type { Parts } from './parts.js'

const USER_TAG_BYTES = 6
const SESSION_RANDOM_BYTES = 12
const SECRET_BYTES = 32

const REFRESH_TOKEN = /^([A-Za-z0-9_-]{1,64})\.[A-Za-z0-9_-]{43}$/

/** A refresh token, and the hash under which it is kept. */
export interface RefreshToken {
  token: string
  /** SHA-256 of the whole token, base64url. */
  hash: string
}

/** A refresh token in a good form, not yet verified. */
export interface PresentedToken extends RefreshToken {
  /** The session that it names. */
  sessionId: string
}

/**
 * Draws a session id: 6 bytes of SHA-256 of the canonical DID, so that the id names the user's shard, and 12 random bytes,
 * as base64url.
 */
export function newSessionId({ curve, random }: Pick<Parts, 'curve' | 'random'>, did: string): string {
  const userTag = curve.sha256(canonicalDid(did)).subarray(0, USER_TAG_BYTES)
  return encodeBase64url(userTag) + random.id(SESSION_RANDOM_BYTES)
}

/** Draws a refresh token of a session: `<sessionId>.<32 random bytes, base64url>`. */
export function newRefreshToken({ curve, random }: Pick<Parts, 'curve' | 'random'>, sessionId: string): RefreshToken {
  return refreshToken(curve, sessionId, random.id(SECRET_BYTES))
}

/**
 * The token that replaces `presented` in a request with an `Idempotency-Key`. The same token and key give the same
 * successor, so that a repeated request gets the same answer. Computing it needs the service's secret.
 */
export function successorToken(
  { curve, settings }: Pick<Parts, 'curve' | 'settings'>,
  presented: { token: string; sessionId: string },
  idempotencyKey: string
): RefreshToken {
  const { challengeSecret, serviceUrl } = settings
  const secret = createHmac('sha256', challengeSecret).update(`refresh-successor\n${serviceUrl}`).digest()
  const successor = createHmac('sha256', secret).update(`${presented.token}\n${idempotencyKey}`).digest('base64url')
  return refreshToken(curve, presented.sessionId, successor)
}

/** Parses a received refresh token; undefined when it has not the form of one. */
export function parseRefreshToken({ curve }: Pick<Parts, 'curve'>, received: unknown): PresentedToken | undefined {
  if (typeof received !== 'string') return undefined
  const sessionId = REFRESH_TOKEN.exec(received)?.[1]
  if (sessionId === undefined) return undefined
  return { token: received, hash: hashRefreshToken(curve, received), sessionId }
}

function refreshToken(curve: Parts['curve'], sessionId: string, secret: string): RefreshToken {
  const token = `${sessionId}.${secret}`
  return { token, hash: hashRefreshToken(curve, token) }
}
