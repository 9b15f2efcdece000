import { describe, sessionOf, type SiweChanges } from '../service-under-test.js'
import { assertNotStored, assertStatus, assertThat, RACERS, type Ask } from './rules.js'

const OTHER_SITE = 'other.example'

/** EIP-4361: asked where the service gives nonces. */
export const siweChecks = {
  'siwe-nonce': async (service) => {
    const [text, json] = [await service.send('GET', '/siwe/nonce'), await service.post('/siwe/nonce', {})]
    for (const exchange of [text, json]) assertNotStored(exchange)
    const nonces = [text.text, json.json.nonce]
    for (const nonce of nonces) {
      assertThat(typeof nonce === 'string' && /^[A-Za-z0-9]{8,}$/.test(nonce), `${describe(text)} without a nonce`)
    }
    assertThat(nonces[0] !== nonces[1], 'two requests received the same nonce')
  },
  'siwe-login': async (service) => {
    const user = service.newUser()
    const exchange = await service.post('/siwe/verify', await service.siweProof(user))
    assertThat(sessionOf(user, exchange) !== undefined, `no session: ${describe(exchange)}`)
    const { address, chainId } = exchange.json
    const isNamed = String(address).toLowerCase() === user.did.slice(-42) && chainId === 1
    assertThat(isNamed, 'the answer names another address or chain')
  },
  'siwe-single-use': async (service) => {
    const body = await service.siweProof()
    assertStatus(await service.post('/siwe/verify', body), 200, 'a good message')
    assertStatus(await service.post('/siwe/verify', body), 401, 'the same message again')
  },
  'siwe-race': async (service) => {
    const body = await service.siweProof()
    const all = await Promise.all(Array.from({ length: RACERS }, () => service.post('/siwe/verify', body)))
    const good = all.filter(({ status }) => status === 200)
    assertThat(good.length === 1, `${good.length} of ${RACERS} copies of one login succeeded`)
  },
  'siwe-bad-signature': async (service) => {
    const body = await service.siweProof()
    const stolen = { ...body, signature: service.newUser().sign(body.message) }
    assertStatus(await service.post('/siwe/verify', stolen), 401, 'a signature of another wallet')
    assertStatus(await service.post('/siwe/verify', body), 200, 'the good signature after it')
  },
  'siwe-own-nonce': refuses('a nonce that the client made', { nonce: 'a1b2c3d4e5f60718' }),
  'siwe-wrong-domain': refuses('another domain', { domain: OTHER_SITE }),
  'siwe-wrong-uri': refuses('the URI of another site', { uri: `https://${OTHER_SITE}/` }),
  'siwe-ended': refuses('an end that is over', { end: '\nExpiration Time: 2020-01-01T00:00:00Z' }),
  'siwe-not-yet': refuses('a beginning ahead', { end: '\nNot Before: 2120-01-01T00:00:00Z' }),
  'siwe-other-text': refuses('text behind the message', { end: '\nI agree to more' })
} satisfies Record<string, Ask>

/** A message that differs from a good one, which is good itself: a service that refuses everything keeps no rule. */
function refuses(what: string, changes: SiweChanges): Ask {
  return async (service) => {
    const user = service.newUser()
    assertStatus(await service.post('/siwe/verify', await service.siweProof(user, changes)), 401, what)
    assertStatus(await service.post('/siwe/verify', await service.siweProof(user)), 200, 'a good message')
  }
}
