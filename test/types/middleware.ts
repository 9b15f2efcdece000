/** Code that must or must not compile with the middleware and its request. Checked by `npm run types`, never run. */
import express, { Router, type RequestHandler } from 'express'
import {
  canonicalDid,
  DidAuthError,
  errorTexts,
  setupDidAuth,
  type AccessTokenClaims,
  type DidAuthConfig,
  type DidAuthErrorCode,
  type DidAuthInfo,
  type RequireDid,
  type Session
} from 'express-did-auth'
import type {} from 'express-did-auth/types'

declare const config: DidAuthConfig

const app = express()

/** An application and a router alike. */
export const requireDid: RequireDid = setupDidAuth(app, config)
export const onRouter: RequireDid = setupDidAuth(Router(), config)

/** A handler like any other. */
export const handler: RequestHandler = requireDid
app.use('/api', requireDid)

app.get('/profile', requireDid, (req, res) => {
  const did: string | undefined = req.user?.did
  const auth: DidAuthInfo | undefined = req.auth
  const sessionId: string | undefined = req.auth?.sessionId
  const canonical: string | undefined = req.auth?.canonicalDid
  const address: string | undefined = req.auth?.address
  const claims: AccessTokenClaims | undefined = req.auth?.claims
  const expires: number | undefined = claims?.exp
  // Claims of business logic are unknown until they are checked.
  const role: unknown = claims?.role
  res.json({ did, auth, sessionId, canonical, address, expires, role })

  // @ts-expect-error -- absent where the middleware did not run
  res.send(req.user.did)
  // @ts-expect-error -- no other field, unless somebody declares it
  res.send(req.user?.name)
  // @ts-expect-error -- a claim of business logic is no string yet
  const name: string = claims?.role
  // @ts-expect-error -- verified claims are read-only
  if (claims !== undefined) claims.sub = name
})

/** Guards that ask more, or less, are handlers as well. */
app.post('/payments', requireDid.with({ checkSession: true }), (req, res) => {
  res.json(req.user?.did)
})
app.get('/news', requireDid.optional, requireDid.with({ optional: true, checkSession: undefined }), (req, res) => {
  res.json(req.user?.did ?? 'a guest')
})
export const guard: RequestHandler = requireDid.with({})
app.get('/admin', requireDid.with({ allow: async ({ claims, user }) => claims.role === user.address }), (req, res) => {
  res.json(req.user?.did)
})

// @ts-expect-error -- a claim is no boolean
requireDid.with({ allow: ({ claims }) => claims.isAdmin })
// @ts-expect-error -- the name of a rule that does not exist
requireDid.with({ allow: undefined })

// @ts-expect-error -- no such option
requireDid.with({ checkSessions: true })

export async function account(): Promise<[boolean, number]> {
  await requireDid.ready
  const sessions: Session[] = await requireDid.sessions.list('did:a:b')
  const state: 'active' | 'loggedOut' | 'revoked' | undefined = sessions[0]?.state
  const revoked: boolean = await requireDid.sessions.revoke(sessions[0]?.sessionId ?? String(state))
  const count: number = await requireDid.sessions.revokeAll(canonicalDid('did:a:B'))
  await requireDid.close()
  return [revoked, count]
}

// @ts-expect-error -- ready is read-only
requireDid.ready = Promise.resolve()
// @ts-expect-error -- a configuration is required
setupDidAuth(app)
// @ts-expect-error -- an application, not a server
setupDidAuth(app.listen(), config)

/** Every code has a text, and no code is any string. */
export const texts: Record<DidAuthErrorCode, string> = errorTexts
export const isExpired = (error: unknown): boolean =>
  error instanceof DidAuthError && error.code === 'ERR_ACCESS_TOKEN_EXPIRED'
// @ts-expect-error -- no such code
export const unknownCode: DidAuthErrorCode = 'ERR_UNKNOWN'
// @ts-expect-error -- a code is required
export const without = new DidAuthError()
