import { createHmac } from 'node:crypto'
import { DidAuthError } from '../errors.js'
import { replaceClaims } from '../protocol/access-token.js'
import type { Client } from '../ports.js'
import type { JsonObject } from '../protocol/json.js'
import { hashRefreshToken, isTokenOf, judgeRefresh, type StoredSession } from '../protocol/session.js'
import { assertStillInControl, getController } from './did-control.js'
import { issueAccessToken, createRefreshToken, identifyUser, computeSessionEnd } from './issue-tokens.js'
import type { ProvedUser, Tokens } from './issue-tokens.js'
import type { Parts } from './parts.js'
import { isRefusal, runBusinessLogic } from './run-business-logic.js'

const REFRESH_TOKEN = /^([A-Za-z0-9_-]{1,64})\.[A-Za-z0-9_-]{43}$/

type RefreshParts = Omit<Parts, 'credentialVerifier' | 'disclosureRequests' | 'quotas' | 'scheduler'>

/**
 * Exchanges a refresh token for new tokens. It works once: of any number of simultaneous uses exactly one wins. A
 * request that is repeated with its idempotency key gets the same refresh token again, until that has been used. The
 * access token is signed before the store changes, so that a failure leaves the old refresh token valid.
 * @throws DidAuthError ERR_REFRESH_TOKEN, ERR_REFRESH_TOKEN_REUSED and ERR_BUSINESS_LOGIC (the session is revoked now),
 * ERR_BUSINESS_LOGIC_TIMEOUT, ERR_INTERNAL, ERR_SIGNER, ERR_STORE; with `didControl: 'document'` ERR_RESOLVER, ERR_BUSY
 * @see RFC 9700, section 4.14.2
 */
export async function refreshTokens(
  parts: RefreshParts,
  request: { refreshToken: unknown; idempotencyKey: string | undefined; client: Client }
): Promise<Tokens & { isRepeated: boolean }> {
  const { settings, store } = parts
  const { refreshToken, idempotencyKey, client } = request
  const { presented, session } = await findPresentedSession(parts, refreshToken)
  const { sessionId } = session
  const next = createRefreshToken(parts, sessionId, deriveSuccessor(settings, presented.token, idempotencyKey))
  const nowSeconds = parts.clock.nowSeconds()
  const nextExpiresAtSeconds = computeSessionEnd(settings, session.createdAtSeconds, nowSeconds)
  const hashes = { presentedHash: presented.hash, nextHash: next.hash }
  const refresh = { ...hashes, nowSeconds, graceSeconds: settings.refreshReuseGraceSeconds }
  // A preview, so that a refused refresh neither asks the business logic nor signs. The atomic verb below decides.
  const expected = judgeRefresh(session, refresh)
  const isExpected = expected === 'rotate' || expected === 'repeated'
  if (!isExpected && expected !== 'reused') throw createRefusal('session', expected)
  if (nextExpiresAtSeconds <= nowSeconds) throw createRefusal('session', 'ended')

  const { address, ...did } = identifyUser(parts.curve, session.did)
  const user = { ...did, address: getController(settings, session.tokenClaims, address) }
  if (isExpected) await assertStillInControl(parts, user, session, client)
  const tokenClaims = isExpected ? await decideClaims(parts, user, session) : session.tokenClaims
  const accessToken = isExpected ? await issueAccessToken(parts, user, { sessionId, tokenClaims }, nowSeconds) : ''
  const service = settings.serviceUrl
  const verdict = await store.rotateRefreshToken({ service, sessionId, ...refresh, tokenClaims, nextExpiresAtSeconds })
  if (isExpected && (verdict === 'rotate' || verdict === 'repeated')) {
    const isRepeated = verdict === 'repeated'
    // The end of a repeat is where the first answer put it: now, when this request lost a race, or at an earlier one.
    const endSeconds = Math.min(expected === 'repeated' ? session.expiresAtSeconds : Infinity, nextExpiresAtSeconds)
    return { accessToken, refreshToken: next.token, refreshTokenSeconds: endSeconds - nowSeconds, isRepeated }
  }
  if (verdict !== 'reused') throw createRefusal('session', verdict)
  parts.logger.warn({ event: 'refresh-token-reused', sessionId }, 'session revoked')
  parts.report({ type: 'refresh-token-reused', did: session.did, sessionId })
  throw new DidAuthError('ERR_REFRESH_TOKEN_REUSED')
}

/** Finds the session of a token, in any state. @throws DidAuthError ERR_REFRESH_TOKEN when it is unknown, ERR_STORE */
export async function findPresentedSession(
  { settings, curve, store }: Pick<Parts, 'settings' | 'curve' | 'store'>,
  received: unknown
): Promise<{ presented: { token: string; hash: string }; session: StoredSession }> {
  const sessionId = typeof received === 'string' ? REFRESH_TOKEN.exec(received)?.[1] : undefined
  if (typeof received !== 'string' || sessionId === undefined) throw createRefusal('form', typeof received)
  const presented = { token: received, hash: hashRefreshToken(curve, received) }
  const session = await store.findSession(settings.serviceUrl, sessionId)
  if (session === undefined) throw createRefusal('session', 'unknown')
  if (!isTokenOf(session, presented.hash)) throw createRefusal('secret', 'unknown')
  return { presented, session }
}

/** Derives a token's next secret, the same for a repeated `Idempotency-Key`; undefined if the request has none. */
function deriveSuccessor(
  { challengeSecret, serviceUrl }: Parts['settings'],
  token: string,
  idempotencyKey: string | undefined
): string | undefined {
  if (idempotencyKey === undefined) return undefined
  const secret = createHmac('sha256', challengeSecret).update(`refresh-successor\n${serviceUrl}`).digest()
  return createHmac('sha256', secret).update(`${token}\n${idempotencyKey}`).digest('base64url')
}

function createRefusal(check: string, got: string): DidAuthError {
  const reason = { check, expected: 'the refresh token of an active session', got }
  return new DidAuthError('ERR_REFRESH_TOKEN', { reason })
}

/**
 * Returns the claims of the session from now on, as business logic says. Its explicit refusal, whatever the code,
 * revokes the session. Any other error is a failure: an outage must not end sessions.
 */
async function decideClaims(
  parts: Pick<Parts, 'settings' | 'clock' | 'store' | 'deadline' | 'logger' | 'report' | 'systemErrorCodes'>,
  { did, canonicalDid, address }: ProvedUser,
  session: StoredSession
): Promise<JsonObject | undefined> {
  const { settings, store, clock, report } = parts
  const logic = settings.refreshBusinessLogic
  if (logic === undefined) return session.tokenClaims
  const { refreshTokenHash: _hash, replacedTokens: _replaced, ...shown } = session
  try {
    const tokenClaims = await runBusinessLogic(parts, () => logic(did, { ...shown, canonicalDid, address }), 'explicit')
    return tokenClaims === undefined ? session.tokenClaims : replaceClaims(session.tokenClaims, tokenClaims)
  } catch (error) {
    if (isRefusal(error)) {
      const { sessionId } = session
      const isRevoked = await store.endSession(settings.serviceUrl, sessionId, 'revoked', clock.nowSeconds())
      if (isRevoked) report({ type: 'session-revoked', did, sessionId, code: error.code })
    }
    throw error
  }
}
