import { loginMessage } from 'express-did-auth/protocol'
import { readClaims, describe, readSession } from '../service-under-test.js'
import type { Exchange, Flow, ServiceUnderTest } from '../service-under-test.js'
import { assertNotStored, assertOneWins, assertStatus, assertThat, NotApplicable, type Check } from './rules.js'

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const LARGE_BYTES = 1_048_576

/** Checks of challenges, sign-up and login: accepted and refused requests. */
export const loginChecks = {
  'challenge-post': async (service) => {
    const exchange = await service.post(service.paths.requestAuth, { did: service.newUser().did })
    const isLine = /^[\x21-\x7e]{16,512}$/.test(readChallenge(exchange))
    assertThat(isLine, 'the challenge is not one line of 16 to 512 printable ASCII characters')
  },
  'challenge-get': async (service) => {
    const { did } = service.newUser()
    readChallenge(await service.send('GET', `${service.paths.requestAuth}/${did}`))
    readChallenge(await service.send('GET', `${service.paths.requestSignup}/${did}`))
  },
  'challenge-of-sign-up': async (service) => {
    const { did } = service.newUser()
    const exchange = await service.requestChallenge({ flow: 'signup', did })
    readChallenge(exchange)
    const { sdr } = exchange.json
    if (sdr === undefined) return
    const { subject, issuer } = readClaims(typeof sdr === 'string' ? sdr : '')
    assertThat(subject === did && typeof issuer === 'string', 'the sdr has no issuer, or its subject is not the DID')
  },
  'challenge-of-one-did': async (service) => {
    const challenges = [await service.challenge(), await service.challenge()]
    assertThat(challenges[0] !== challenges[1], 'two DIDs received the same challenge')
  },
  'challenge-headers': async (service) => {
    const exchange = await service.requestChallenge()
    assertNotStored(exchange)
    const seconds = exchange.headers.get('challenge-expires-in') ?? ''
    assertThat(/^[1-9]\d*$/.test(seconds), `Challenge-Expires-In is "${seconds}", expected a number of seconds`)
  },
  'challenge-needs-did': async (service) => {
    assertStatus(await service.requestChallenge({ did: 'not-a-did' }), 401, 'a challenge for not-a-did')
    if (service.challengeForm === 'GET') return
    for (const body of [{}, { did: 7 }, { did: ['did:ethr:rsk:0x'] }]) {
      assertStatus(await service.post(service.paths.requestAuth, body), 401, `a challenge for ${JSON.stringify(body)}`)
    }
  },
  'sign-up': (service) => signUp(service),
  'sign-up-third-line': (service) => signUp(service, '\nMy credentials are: '),
  'sign-up-wrong-signature': (service) => refusesOtherWallet(service, 'signup'),
  'sign-up-single-use': async (service) => refuses(service, await signUp(service), 'a repeated sign-up', 'signup'),

  login: (service) => service.logIn(),
  'login-response-form': async (service) => {
    const exchange = await service.post(service.paths.auth, { response: await service.proof() })
    assertStatus(exchange, 200, 'a valid login')
  },
  'login-one-form': async (service) => {
    const proof = await service.proof()
    await refuses(service, { ...proof, response: proof }, 'a body in both forms')
  },
  'login-single-use': async (service) => {
    const proof = await service.proof()
    assertStatus(await service.post(service.paths.auth, proof), 200, 'a valid login')
    await refuses(service, proof, 'a repeated signature')
  },
  'login-race': async (service) => {
    const proof = await service.proof()
    await assertOneWins('simultaneous copies of a login', () => service.post(service.paths.auth, proof))
  },
  'login-wrong-signature': (service) => refusesOtherWallet(service, 'auth'),
  'login-other-did': async (service) => {
    const { sig } = await service.proof()
    await refuses(service, { did: service.newUser().did, sig }, 'a signature for another DID')
  },
  'login-wrong-domain': async (service) => {
    for (const domain of ['other.example', `other.example/${service.domain}`, `${service.domain}.other.example`]) {
      await refuses(service, await service.proof(undefined, { domain }), `a message for ${domain}`)
    }
  },
  'login-wrong-challenge': async (service) => {
    const user = service.newUser()
    for (const challenge of ['0'.repeat(64), '', 'undefined', await service.challenge()]) {
      await refuses(service, await service.proof(user, { challenge }), 'a challenge that was not issued to this DID')
    }
  },
  'login-malleable-signature': async (service) => {
    const { did, sig } = await service.proof()
    const s = ORDER - BigInt(`0x${sig.slice(66, 130)}`)
    const v = sig.endsWith('1b') ? '1c' : '1b'
    const highS = `${sig.slice(0, 66)}${s.toString(16).padStart(64, '0')}${v}`
    await refuses(service, { did, sig: highS }, 'a signature with a high s')
  },
  'login-missing-fields': async (service) => {
    const { did } = service.newUser()
    const wrong = [{ did }, { sig: '0x' }, { did, sig: 7 }, { did, sig: {} }, { did, sig: '0x12' }]
    for (const body of [{}, [], ...wrong, { did: null, sig: null }, { response: 'text' }]) {
      await refuses(service, body, `a login of ${JSON.stringify(body)}`)
    }
  },
  'broken-json': async (service) => {
    const challengePaths = service.challengeForm === 'POST' ? [service.paths.requestAuth] : []
    for (const path of [service.paths.auth, ...challengePaths, service.paths.signup]) {
      assertStatus(await service.send('POST', path, { text: '{"did":' }), 400, 'truncated JSON')
    }
  },
  'large-body': async (service) => {
    const text = JSON.stringify({ did: 'x'.repeat(LARGE_BYTES) })
    assertStatus(await service.send('POST', service.paths.auth, { text }), 413, 'a body of 1 MiB')
  }
} satisfies Record<string, Check>

function readChallenge(exchange: Exchange): string {
  assertStatus(exchange, 200, 'a valid request')
  const { challenge } = exchange.json
  const isText = typeof challenge === 'string' && challenge !== ''
  assertThat(isText, `${describe(exchange)} without the string "challenge" in JSON`)
  return challenge
}

async function refuses(service: ServiceUnderTest, body: unknown, request: string, flow: Flow = 'auth'): Promise<void> {
  assertStatus(await service.post(service.paths[flow], body), 401, request)
}

async function refusesOtherWallet(service: ServiceUnderTest, flow: Flow): Promise<void> {
  const { did } = service.newUser()
  const { sig } = await service.proof({ ...service.newUser(), did }, { flow })
  await refuses(service, { did, sig }, 'a signature of another wallet', flow)
}

/** Signs a user up and returns the accepted body. @throws NotApplicable if the service requires credentials */
async function signUp(service: ServiceUnderTest, end = ''): Promise<object> {
  const user = service.newUser()
  const { json } = await service.requestChallenge({ flow: 'signup', did: user.did })
  if (json.sdr !== undefined) throw new NotApplicable('the service requires credentials or claims')
  const sig = user.sign(loginMessage(service.domain, String(json.challenge)) + end)
  const body = { did: user.did, sig, credentials: [] }
  const exchange = await service.post(service.paths.signup, body)
  assertStatus(exchange, 200, 'a valid sign-up')
  assertThat(readSession(user, exchange) !== undefined, 'the sign-up returned no tokens')
  return body
}
