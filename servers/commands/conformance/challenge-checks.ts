import { loginMessage } from 'express-did-auth/protocol'
import { assertJson, assertNotStored, assertStatus, assertThat, check, NotApplicable, type Check } from './check.js'
import { refusesOtherWallet } from './login-checks.js'
import { claimsOf, sessionOf, type ServiceUnderTest } from './service.js'

/** Challenges, and the sign up. */
export const challengeChecks: readonly Check[] = [
  check('challenge-post', 'POST of a DID answers a challenge in JSON, one line of text', async (service) => {
    const exchange = await service.post(service.paths.requestAuth, { did: service.newUser().did })
    assertJson(exchange, ['challenge'])
    assertThat(
      /^[\x21-\x7e]{16,512}$/.test(String(exchange.json.challenge)),
      'the challenge is no line of 16 to 512 characters'
    )
  }),
  check('challenge-get', 'GET with the DID in the path answers a challenge as well', async (service) => {
    const { did } = service.newUser()
    assertJson(await service.send('GET', `${service.paths.requestAuth}/${did}`), ['challenge'])
    assertJson(await service.send('GET', `${service.paths.requestSignup}/${did}`), ['challenge'])
  }),
  check(
    'challenge-of-sign-up',
    'the challenge of a sign up comes alone, or with the sdr as a JWT that names service and user',
    async (service) => {
      const { did } = service.newUser()
      const exchange = await service.askChallenge('signup', did)
      assertJson(exchange, ['challenge'])
      const { sdr } = exchange.json
      if (sdr === undefined) return
      const payload = claimsOf(typeof sdr === 'string' ? sdr : '')
      assertThat(
        payload.subject === did && typeof payload.issuer === 'string',
        'the sdr has no issuer, or another subject'
      )
    }
  ),
  check('challenge-of-one-did', 'two DIDs get two challenges', async (service) => {
    const challenges = [await challengeOf(service), await challengeOf(service)]
    assertThat(challenges[0] !== challenges[1], 'two DIDs received the same challenge')
  }),
  check(
    'challenge-headers',
    'a challenge comes with Cache-Control: no-store and Challenge-Expires-In',
    async (service) => {
      const exchange = await service.askChallenge('auth', service.newUser().did)
      assertNotStored(exchange)
      const seconds = exchange.headers.get('challenge-expires-in') ?? ''
      assertThat(/^[1-9]\d*$/.test(seconds), `Challenge-Expires-In is "${seconds}", and not a number of seconds`)
    }
  ),
  check('challenge-needs-did', 'a missing or malformed DID is 401', async (service) => {
    assertStatus(await service.askChallenge('auth', 'not-a-did'), 401, 'a challenge for not-a-did')
    if (service.challengeForm === 'GET') return
    for (const body of [{}, { did: 7 }, { did: ['did:ethr:rsk:0x'] }]) {
      assertStatus(await service.post(service.paths.requestAuth, body), 401, `a challenge for ${JSON.stringify(body)}`)
    }
  }),
  check('sign-up', 'without an sdr, the message of a login signs up', async (service) => {
    await signUp(service, (message) => message)
  }),
  check(
    'sign-up-third-line',
    'without an sdr, a third line with no credentials after its prefix signs up as well',
    async (service) => {
      await signUp(service, (message) => `${message}\nMy credentials are: `)
    }
  ),
  check('sign-up-wrong-signature', 'a sign up with a signature of another wallet is 401', (service) =>
    refusesOtherWallet(service, 'signup')
  ),
  check('sign-up-single-use', 'one signature signs up once', async (service) => {
    const proof = await signUp(service, (message) => message)
    assertStatus(await service.post(service.paths.signup, proof), 401, 'the same sign up again')
  })
]

function challengeOf(service: ServiceUnderTest): Promise<string> {
  return service.challenge('auth', service.newUser().did)
}

/** Signs up, and answers the body that was good once. @throws NotApplicable where credentials are asked for */
async function signUp(service: ServiceUnderTest, spell: (message: string) => string): Promise<object> {
  const user = service.newUser()
  const asked = await service.askChallenge('signup', user.did)
  if (asked.json.sdr !== undefined) throw new NotApplicable('the service asks for credentials or claims')
  const sig = user.sign(spell(loginMessage(service.domain, String(asked.json.challenge))))
  const body = { did: user.did, sig, credentials: [] }
  const exchange = await service.post(service.paths.signup, body)
  assertStatus(exchange, 200, 'a good sign up')
  assertThat(sessionOf(user, exchange) !== undefined, 'the sign up answered no tokens')
  return body
}
