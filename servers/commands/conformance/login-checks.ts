import { loginMessage } from 'express-did-auth/protocol'
import { assertStatus, assertThat, check, type Check } from './check.js'
import type { Flow, ServiceUnderTest } from './service.js'

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
const RACERS = 8
const LARGE_BYTES = 1_048_576

/** Logins: who is let in, and what is refused. */
export const loginChecks: readonly Check[] = [
  check('login', 'a signed challenge logs in, and both tokens come back', async (service) => {
    await service.logIn()
  }),
  check('login-response-form', 'the body { response: { did, sig } } logs in as well', async (service) => {
    const exchange = await service.post(service.paths.auth, { response: await freshProof(service) })
    assertStatus(exchange, 200, 'a good login')
  }),
  check('login-one-form', 'both forms of the body at once are 401', async (service) => {
    const proof = await freshProof(service)
    assertStatus(await service.post(service.paths.auth, { ...proof, response: proof }), 401, 'both forms at once')
  }),
  check('login-single-use', 'one signature opens one session: the same login again is 401', async (service) => {
    const proof = await freshProof(service)
    assertStatus(await service.post(service.paths.auth, proof), 200, 'a good login')
    assertStatus(await service.post(service.paths.auth, proof), 401, 'the same signature again')
  }),
  check('login-race', `of ${RACERS} copies of a login that arrive at once, one succeeds`, async (service) => {
    const proof = await freshProof(service)
    const copies = Array.from({ length: RACERS }, () => service.post(service.paths.auth, proof))
    const good = (await Promise.all(copies)).filter(({ status }) => status === 200)
    assertThat(good.length === 1, `${good.length} of ${RACERS} copies of one login succeeded`)
  }),
  check('login-wrong-signature', 'a signature of another wallet is 401', (service) =>
    refusesOtherWallet(service, 'auth')
  ),
  check(
    'login-other-did',
    'a good signature is 401 for another DID than the one that asked for its challenge',
    async (service) => {
      const { sig } = await freshProof(service)
      assertStatus(await service.post(service.paths.auth, { did: service.newUser().did, sig }), 401, 'another DID')
    }
  ),
  check('login-wrong-domain', 'a message that names another domain is 401', async (service) => {
    for (const domain of ['other.example', `other.example/${service.domain}`, `${service.domain}.other.example`]) {
      const user = service.newUser()
      const sig = user.sign(loginMessage(domain, await service.challenge('auth', user.did)))
      assertStatus(await service.post(service.paths.auth, { did: user.did, sig }), 401, `a message for ${domain}`)
    }
  }),
  check('login-wrong-challenge', 'a message with a challenge that the service did not give is 401', async (service) => {
    const user = service.newUser()
    const challenges = ['0'.repeat(64), '', 'undefined', await service.challenge('auth', service.newUser().did)]
    for (const challenge of challenges) {
      const sig = user.sign(loginMessage(service.domain, challenge))
      assertStatus(await service.post(service.paths.auth, { did: user.did, sig }), 401, 'a made-up challenge')
    }
  }),
  check(
    'login-malleable-signature',
    'the second spelling of a good signature, with a high s, is 401',
    async (service) => {
      const { did, sig } = await freshProof(service)
      const s = ORDER - BigInt(`0x${sig.slice(66, 130)}`)
      const v = sig.endsWith('1b') ? '1c' : '1b'
      const spelling = `${sig.slice(0, 66)}${s.toString(16).padStart(64, '0')}${v}`
      assertStatus(await service.post(service.paths.auth, { did, sig: spelling }), 401, 'a signature with a high s')
    }
  ),
  check(
    'login-missing-fields',
    'a login without one of its fields, or with one of another type, is 401',
    async (service) => {
      const { did } = service.newUser()
      const bodies: unknown[] = [
        {},
        [],
        { did },
        { sig: '0x' },
        { did, sig: 7 },
        { did, sig: {} },
        { did, sig: '0x12' }
      ]
      for (const body of [...bodies, { did: null, sig: null }, { response: 'text' }]) {
        assertStatus(await service.post(service.paths.auth, body), 401, `a login of ${JSON.stringify(body)}`)
      }
    }
  ),
  check('broken-json', 'JSON that does not parse is 400', async (service) => {
    const ofChallenge = service.challengeForm === 'POST' ? [service.paths.requestAuth] : []
    for (const path of [service.paths.auth, ...ofChallenge, service.paths.signup]) {
      assertStatus(await service.send('POST', path, { raw: '{"did":' }), 400, 'half a JSON text')
    }
  }),
  check('large-body', 'a body of 1 MiB is 413', async (service) => {
    const raw = JSON.stringify({ did: 'x'.repeat(LARGE_BYTES) })
    assertStatus(await service.send('POST', service.paths.auth, { raw }), 413, 'a body of 1 MiB')
  })
]

function freshProof(service: ServiceUnderTest): Promise<{ did: string; sig: string }> {
  return service.proof(service.newUser())
}

/** @throws when a signature of another wallet is accepted */
export async function refusesOtherWallet(service: ServiceUnderTest, flow: Flow): Promise<void> {
  const { did } = service.newUser()
  const { sig } = await service.proof({ ...service.newUser(), did }, flow)
  assertStatus(await service.post(service.paths[flow], { did, sig }), 401, 'a signature of another wallet')
}
