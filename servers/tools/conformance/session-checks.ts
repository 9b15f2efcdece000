import { randomBytes } from 'node:crypto'
import { parseJwt, signerAddresses } from 'express-did-auth/protocol'
import { readClaims, describe, readSession, type ServiceUnderTest, type Session } from '../service-under-test.js'
import {
  assertOneWins,
  assertStatus,
  assertThat,
  MAX_ACCESS_TOKEN_SECONDS,
  NotApplicable,
  type Check
} from './rules.js'

/** Checks of access tokens, the protected route, refresh and logout. */
export const sessionChecks = {
  'access-token-form': async (service) => {
    const { user, accessToken } = await service.logIn()
    const { alg, typ = 'JWT' } = readClaims(accessToken, 0)
    const header = `the header of the access token has alg ${String(alg)}, typ ${String(typ)}`
    assertThat(alg === 'ES256K' && typ === 'JWT', header)
    const { iss, aud, sub, iat, nbf, exp } = readClaims(accessToken)
    assertThat(sub === user.did, 'the sub of the access token is not the DID')
    for (const text of [iss, aud])
      assertThat(typeof text === 'string' && text !== '', 'iss or aud is not a non-empty string')
    for (const time of [iat, nbf, exp]) assertThat(Number.isInteger(time), 'iat, nbf or exp is not an integer')
  },
  'access-token-life': async (service) => {
    const seconds = readLifetime((await service.logIn()).accessToken)
    assertThat(seconds > 0 && seconds <= MAX_ACCESS_TOKEN_SECONDS, `the access token is valid for ${seconds} s`)
  },
  'access-token-signature': async (service) => {
    const { accessToken } = await service.logIn()
    const jwt = parseJwt(accessToken, accessToken.length)
    const address = /^did:ethr:.*(0x[0-9a-f]{40})$/i.exec(String(jwt?.payload.iss))?.[1]
    if (jwt === undefined || address === undefined) throw new NotApplicable('iss is not a did:ethr with an address')
    const isOwnKey = signerAddresses(service.options.curve, jwt).includes(address.toLowerCase())
    assertThat(isOwnKey, 'another key signed the access token')
  },
  'guard-accepts': openGuardedSession,
  'guard-scheme': async (service) => {
    const { accessToken } = await openGuardedSession(service)
    for (const [scheme, status] of Object.entries({ didauth: 200, Basic: 401 })) {
      const headers = { Authorization: `${scheme} ${accessToken}` }
      const exchange = await service.send('GET', service.options.protectedPath, { headers })
      assertStatus(exchange, status, `the scheme ${scheme}`)
    }
  },
  'guard-missing-token': async (service) => {
    await openGuardedSession(service)
    assertStatus(await service.send('GET', service.options.protectedPath), 401, 'no access token')
  },
  'guard-alg-none': guardRefuses('an unsigned token', ({ accessToken }) => {
    const [, payload = '', signature = ''] = accessToken.split('.')
    const headers = ['none', 'None', 'HS256'].map((alg) => encode({ alg, typ: 'JWT' }))
    return headers.flatMap((header) => [`${header}.${payload}.`, `${header}.${payload}.${signature}`])
  }),
  'guard-changed-token': guardRefuses('a token with a changed sub', ({ accessToken }, service) => {
    const [header = '', , signature = ''] = accessToken.split('.')
    return [`${header}.${encode({ ...readClaims(accessToken), sub: service.newUser().did })}.${signature}`]
  }),
  'guard-foreign-key': guardRefuses('a token that another key signed', ({ accessToken }, { options: { curve } }) => {
    const signed = accessToken.slice(0, accessToken.lastIndexOf('.'))
    const { signature } = curve.sign(curve.sha256(signed), randomBytes(32))
    return [`${signed}.${Buffer.from(signature).toString('base64url')}`]
  }),
  'guard-no-other-token': guardRefuses('text that is not an access token', ({ refreshToken }) => [
    refreshToken,
    'x',
    'x.y.z'
  ]),
  'guard-expired-token': async (service) => {
    const session = await openGuardedSession(service)
    const seconds = readLifetime(session.accessToken)
    const { maxWaitSeconds = 0, wait } = service.options
    if (seconds > maxWaitSeconds)
      throw new NotApplicable(`access tokens are valid for ${seconds} s: allow this time with --wait`)
    await wait?.(seconds + 1)
    const exchange = await service.readProtected(session)
    assertStatus(exchange, 401, 'an expired access token')
    // The title, if the service answers with problem documents.
    const text = exchange.json.title ?? exchange.text
    assertThat(text === 'Expired access token', `${describe(exchange)}, expected "Expired access token"`)
  },
  refresh: async (service) => {
    const session = await service.logIn()
    const next = await refreshSession(service, session)
    assertThat(next.refreshToken !== session.refreshToken, 'the refresh token was not replaced')
    const [before, after] = [readClaims(session.accessToken), readClaims(next.accessToken)]
    for (const name of ['iss', 'aud', 'sub']) {
      assertThat(before[name] === after[name], `the refresh changed the claim ${name}`)
    }
    assertThat(Number(after.exp) >= Number(before.exp), 'the new access token expires before the old one')
  },
  'refresh-single-use': async (service) => {
    const session = await service.logIn()
    await refreshSession(service, await refreshSession(service, session))
    assertStatus(await service.refresh(session), 401, 'a used refresh token')
  },
  'refresh-race': async (service) => {
    const session = await service.logIn()
    await assertOneWins('simultaneous uses of a refresh token', () => service.refresh(session))
  },
  'refresh-repeat': async (service) => {
    const session = await service.logIn()
    const headers = { 'Idempotency-Key': randomBytes(16).toString('base64url') }
    const [first, second] = [await service.refresh(session, headers), await service.refresh(session, headers)]
    assertStatus(second, 200, 'a repeated refresh')
    const [original, repeat] = [readSession(session.user, first), readSession(session.user, second)]
    const isSame = original !== undefined && original.refreshToken === repeat?.refreshToken
    assertThat(isSame, 'the repeated refresh returned another refresh token')
    const replayed = second.headers.get('idempotent-replayed')
    assertThat(replayed === 'true', `the repeated refresh has Idempotent-Replayed "${replayed ?? ''}", expected "true"`)
  },
  'refresh-unknown': async (service) => {
    const { refreshToken } = await service.logIn()
    const unknown = `${refreshToken.slice(0, -8)}AAAAAAAA`
    for (const body of [{}, { refreshToken: 7 }, { refreshToken: '' }, { refreshToken: unknown }]) {
      assertStatus(await service.post(service.paths.refreshToken, body), 401, 'an invalid refresh token')
    }
  },
  logout: async (service) => {
    const session = await service.logIn()
    for (const exchange of [await service.logOut(session), await service.logOut(session)]) {
      assertStatus(exchange, 200, 'a logout')
      assertThat(exchange.text === '', 'the body of the logout response is not empty')
    }
  },
  'logout-ends-refresh': async (service) => {
    const session = await service.logIn()
    await service.logOut(session)
    assertStatus(await service.refresh(session), 401, 'a refresh token after the logout')
  },
  'logout-one-session': async (service) => {
    const user = service.newUser()
    const [session, otherSession] = [await service.logIn(user), await service.logIn(user)]
    await service.logOut(session)
    assertStatus(await service.refresh(otherSession), 200, 'the refresh token of the other session')
  },
  'logout-needs-token': async (service) => {
    assertStatus(await service.post(service.paths.logout, {}), 401, 'a logout without a token')
    const forged = await service.post(service.paths.logout, {}, { Authorization: 'DIDAuth x.y.z' })
    assertStatus(forged, 401, 'a logout with a forged token')
  }
} satisfies Record<string, Check>

async function openGuardedSession(service: ServiceUnderTest): Promise<Session> {
  const { protectedPath } = service.options
  const { status } = await service.send('GET', protectedPath)
  if (status === 404)
    throw new NotApplicable(`${protectedPath} does not exist: name a protected route with --protected`)
  const session = await service.logIn()
  // A route that refuses every token would also refuse forged ones.
  assertStatus(await service.readProtected(session), 200, 'a valid access token')
  return session
}

type CreateTokens = (session: Session, service: ServiceUnderTest) => string[]

/** Creates a check that the protected route refuses tokens although it accepts the token of a valid session. */
function guardRefuses(tokenKind: string, createTokens: CreateTokens): Check {
  return async (service) => {
    const session = await openGuardedSession(service)
    for (const token of createTokens(session, service)) {
      assertStatus(await service.readProtected(session, token), 401, tokenKind)
    }
  }
}

async function refreshSession(service: ServiceUnderTest, session: Session): Promise<Session> {
  const exchange = await service.refresh(session)
  assertStatus(exchange, 200, 'a valid refresh token')
  const next = readSession(session.user, exchange)
  assertThat(next !== undefined, 'the refresh returned no tokens')
  return next
}

function readLifetime(accessToken: string): number {
  const { iat, exp } = readClaims(accessToken)
  return Number(exp) - Number(iat)
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}
