import { randomBytes } from 'node:crypto'
import { addressOfPublicKey } from 'express-did-auth/protocol'
import { assertStatus, assertThat, check, NotApplicable, type Check } from './check.js'
import { claimsOf, describe, partOf, type ServiceUnderTest, type Session } from './service.js'

const MAX_ACCESS_TOKEN_SECONDS = 900

/** How long a check waits for an access token to expire. */
export interface Waiting {
  maxSeconds: number
  wait: (seconds: number) => Promise<void>
}

/** Access tokens, and the route behind them. */
export const tokenChecks = ({ maxSeconds, wait }: Waiting): readonly Check[] => [
  check(
    'access-token-form',
    'the access token is an ES256K JWT of iss, aud, sub, exp, nbf and iat; sub is the DID as received',
    async (service) => {
      const { user, accessToken } = await service.logIn()
      const { alg, typ = 'JWT' } = headerOf(accessToken)
      assertThat(
        alg === 'ES256K' && typ === 'JWT',
        `the header of the access token has alg ${String(alg)}, typ ${String(typ)}`
      )
      const { iss, aud, sub, iat, nbf, exp } = claimsOf(accessToken)
      assertThat(sub === user.did, 'the access token has another sub than the DID')
      for (const text of [iss, aud]) assertThat(typeof text === 'string' && text !== '', 'iss or aud is no text')
      for (const time of [iat, nbf, exp]) assertThat(Number.isInteger(time), 'iat, nbf or exp is no whole number')
    }
  ),
  check(
    'access-token-life',
    `an access token is good for at most ${MAX_ACCESS_TOKEN_SECONDS / 60} minutes`,
    async (service) => {
      const seconds = lifeOf((await service.logIn()).accessToken)
      assertThat(seconds > 0 && seconds <= MAX_ACCESS_TOKEN_SECONDS, `the access token is good for ${seconds} s`)
    }
  ),
  check(
    'access-token-signature',
    'the key of the DID in iss made the signature of the access token',
    async (service) => {
      const { accessToken } = await service.logIn()
      const address = /^did:ethr:.*(0x[0-9a-f]{40})$/i.exec(String(claimsOf(accessToken).iss))?.[1]
      if (address === undefined) throw new NotApplicable('iss is no did:ethr of an address')
      assertThat(signersOf(service, accessToken).includes(address.toLowerCase()), 'another key signed the access token')
    }
  ),
  check('guard-accepts', 'the guarded route accepts a good access token', async (service) => {
    await guardedSession(service)
  }),
  check(
    'guard-scheme',
    'Authorization: DIDAuth is compared without case, and another scheme is 401',
    async (service) => {
      const { accessToken } = await guardedSession(service)
      const ask = (scheme: string) =>
        service.send('GET', service.options.protectedPath, { headers: { Authorization: `${scheme} ${accessToken}` } })
      assertStatus(await ask('didauth'), 200, 'the scheme didauth')
      assertStatus(await ask('Basic'), 401, 'the scheme Basic')
    }
  ),
  check('guard-missing-token', 'the guarded route is 401 without an access token', async (service) => {
    await guardedSession(service)
    assertStatus(await service.send('GET', service.options.protectedPath), 401, 'no access token')
  }),
  check('guard-alg-none', 'an unsigned token, with alg none, is 401', async (service) => {
    const session = await guardedSession(service)
    const [, payload = '', signature = ''] = session.accessToken.split('.')
    for (const alg of ['none', 'None', 'HS256']) {
      const header = encode({ alg, typ: 'JWT' })
      for (const end of ['', signature]) {
        assertStatus(await service.guarded(session, `${header}.${payload}.${end}`), 401, `a token with alg ${alg}`)
      }
    }
  }),
  check('guard-changed-token', 'a token whose payload was changed is 401', async (service) => {
    const session = await guardedSession(service)
    const [header = '', , signature = ''] = session.accessToken.split('.')
    const claims = { ...claimsOf(session.accessToken), sub: service.newUser().did }
    assertStatus(await service.guarded(session, `${header}.${encode(claims)}.${signature}`), 401, 'another sub')
  }),
  check(
    'guard-foreign-key',
    'a token with the claims of a good one, signed by another key, is 401',
    async (service) => {
      const session = await guardedSession(service)
      const { curve } = service.options
      const signed = session.accessToken.slice(0, session.accessToken.lastIndexOf('.'))
      const { signature } = curve.sign(curve.sha256(signed), randomBytes(32))
      const forged = `${signed}.${Buffer.from(signature).toString('base64url')}`
      assertStatus(await service.guarded(session, forged), 401, 'a token of another key')
    }
  ),
  check(
    'guard-no-other-token',
    'a refresh token, and text that is no JWT, are no access tokens: 401',
    async (service) => {
      const session = await guardedSession(service)
      for (const token of [session.refreshToken, 'x', 'x.y.z']) {
        assertStatus(await service.guarded(session, token), 401, 'what is no access token')
      }
    }
  ),
  check(
    'guard-expired-token',
    'an expired access token is 401 with the text "Expired access token"',
    async (service) => {
      const session = await guardedSession(service)
      const seconds = lifeOf(session.accessToken)
      if (!(seconds <= maxSeconds)) throw new NotApplicable(`access tokens are good for ${seconds} s: wait with --wait`)
      await wait(seconds + 1)
      const exchange = await service.guarded(session)
      assertStatus(exchange, 401, 'an expired access token')
      // The title of a problem where the service answers problems.
      const text = exchange.json.title ?? exchange.text
      assertThat(text === 'Expired access token', `${describe(exchange)} instead of "Expired access token"`)
    }
  )
]

/** @throws NotApplicable where there is no guarded route */
async function guardedSession(service: ServiceUnderTest): Promise<Session> {
  const { protectedPath } = service.options
  const { status } = await service.send('GET', protectedPath)
  if (status === 404) throw new NotApplicable(`there is no ${protectedPath}: name a guarded route with --protected`)
  const session = await service.logIn()
  // A route that refuses everybody refuses forged tokens as well.
  assertStatus(await service.guarded(session), 200, 'a good access token')
  return session
}

function headerOf(jwt: string): Record<string, unknown> {
  return partOf(jwt, 0)
}

function lifeOf(accessToken: string): number {
  const { iat, exp } = claimsOf(accessToken)
  return Number(exp) - Number(iat)
}

function encode(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url')
}

/** Addresses of the keys that can have made the signature of a JWT. */
function signersOf({ options: { curve } }: ServiceUnderTest, jwt: string): string[] {
  const [header = '', payload = '', signature = ''] = jwt.split('.')
  const bytes = Buffer.from(signature, 'base64url')
  if (bytes.length !== 64) return []
  const hash = curve.sha256(`${header}.${payload}`)
  return [0, 1].flatMap((recovery) => {
    const key = curve.recover(hash, bytes, recovery)
    return key === undefined ? [] : [addressOfPublicKey(curve, key)]
  })
}
