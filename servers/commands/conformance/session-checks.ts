import { randomBytes } from 'node:crypto'
import { assertStatus, assertThat, check, type Check } from './check.js'
import { claimsOf, sessionOf, type ServiceUnderTest, type Session } from './service.js'

const RACERS = 8

/** Refresh and logout. */
export const sessionChecks: readonly Check[] = [
  check(
    'refresh',
    'a refresh answers a new pair: the same user, service and session data, another refresh token',
    async (service) => {
      const session = await service.logIn()
      const next = await refreshed(service, session)
      assertThat(next.refreshToken !== session.refreshToken, 'the refresh token was not replaced')
      const [before, after] = [claimsOf(session.accessToken), claimsOf(next.accessToken)]
      for (const name of ['iss', 'aud', 'sub']) {
        assertThat(before[name] === after[name], `the refresh changed the claim ${name}`)
      }
      assertThat(Number(after.exp) >= Number(before.exp), 'the new access token ends before the old one')
    }
  ),
  check(
    'refresh-single-use',
    'a refresh token is good once: the old one is 401, the new one is good',
    async (service) => {
      const session = await service.logIn()
      const next = await refreshed(service, session)
      await refreshed(service, next)
      assertStatus(await service.refresh(session), 401, 'a refresh token that was used')
    }
  ),
  check('refresh-race', `of ${RACERS} simultaneous uses of a refresh token, one wins`, async (service) => {
    const session = await service.logIn()
    const all = await Promise.all(Array.from({ length: RACERS }, () => service.refresh(session)))
    const good = all.filter(({ status }) => status === 200)
    assertThat(good.length === 1, `${good.length} of ${RACERS} uses of one refresh token succeeded`)
  }),
  check(
    'refresh-repeat',
    'with one Idempotency-Key, a repeated refresh answers the same refresh token',
    async (service) => {
      const session = await service.logIn()
      const headers = { 'Idempotency-Key': randomBytes(16).toString('base64url') }
      const [first, second] = [await service.refresh(session, headers), await service.refresh(session, headers)]
      assertStatus(second, 200, 'a repeated refresh')
      const [one, other] = [sessionOf(session.user, first), sessionOf(session.user, second)]
      assertThat(
        one !== undefined && one.refreshToken === other?.refreshToken,
        'the repeat answered another refresh token'
      )
      const replayed = second.headers.get('idempotent-replayed')
      assertThat(replayed === 'true', `the repeat has Idempotent-Replayed "${replayed ?? ''}"`)
    }
  ),
  check('refresh-unknown', 'a missing, malformed or unknown refresh token is 401', async (service) => {
    const { refreshToken } = await service.logIn()
    const unknown = `${refreshToken.slice(0, -8)}AAAAAAAA`
    for (const body of [{}, { refreshToken: 7 }, { refreshToken: '' }, { refreshToken: unknown }]) {
      assertStatus(await service.post(service.paths.refreshToken, body), 401, 'no good refresh token')
    }
  }),
  check('logout', 'a logout is 200 without content, and twice as well', async (service) => {
    const session = await service.logIn()
    for (const exchange of [await service.logOut(session), await service.logOut(session)]) {
      assertStatus(exchange, 200, 'a logout')
      assertThat(exchange.text === '', 'the logout answered content')
    }
  }),
  check('logout-ends-refresh', 'after a logout the refresh token is 401', async (service) => {
    const session = await service.logIn()
    await service.logOut(session)
    assertStatus(await service.refresh(session), 401, 'the refresh token of a session that was logged out')
  }),
  check('logout-one-session', "a logout ends that session, and none of the user's others", async (service) => {
    const user = service.newUser()
    const [here, there] = [await service.logIn(user), await service.logIn(user)]
    await service.logOut(here)
    assertStatus(await service.refresh(there), 200, 'the refresh token of another device')
  }),
  check('logout-needs-token', 'a logout without token, or with one that is none, is 401', async (service) => {
    assertStatus(await service.post(service.paths.logout, {}), 401, 'a logout without token')
    const forged = await service.post(service.paths.logout, {}, { Authorization: 'DIDAuth x.y.z' })
    assertStatus(forged, 401, 'a logout with a forged token')
  })
]

async function refreshed(service: ServiceUnderTest, session: Session): Promise<Session> {
  const exchange = await service.refresh(session)
  assertStatus(exchange, 200, 'a good refresh token')
  const next = sessionOf(session.user, exchange)
  assertThat(next !== undefined, 'the refresh answered no tokens')
  return next
}
