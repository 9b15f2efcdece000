import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { es256k, forgeJwt } from '../../protocol/forge-jwt.js'
import { serviceUrl, testVault, VaultUser, type TestVault } from '../../support/servers/vault-app.js'
import { createLoginText, createNumberedWallet, serviceWallet } from '../../support/fixtures/fixtures.js'

const HEADER = { alg: 'ES256K', typ: 'JWT' }
const wallet = createNumberedWallet(1)

/** Every route that requires a token. */
const GUARDED = [
  ['post', '/notes'],
  ['put', '/notes'],
  ['put', '/notes/id'],
  ['delete', '/notes'],
  ['delete', '/notes/id'],
  ['get', '/keys'],
  ['get', '/storage'],
  ['get', '/backup']
] as const

let vault: TestVault
let user: VaultUser

let limited: TestVault | undefined

beforeAll(async () => {
  vault = await testVault()
})
afterAll(() => vault.close())
beforeEach(async () => {
  user = await VaultUser.logIn(vault.listener, wallet)
  await user.put('notes', 'kept').expect(200)
})
afterEach(async () => {
  await limited?.close()
  limited = undefined
})

/** Starts a vault with other variables. */
async function startLimited(env: Record<string, string>): Promise<TestVault> {
  limited = await testVault(env)
  return limited
}

/** Reads the responses of all guarded routes to an Authorization header. */
async function readAnswers(authorization: string | undefined): Promise<string[]> {
  const answers: string[] = []
  for (const [verb, path] of GUARDED) {
    const call = request(vault.listener)[verb](path)
    if (authorization !== undefined) call.set('Authorization', authorization)
    const { status, text, headers } = await (verb === 'get' || verb === 'delete' ? call : call.send({ content: 'a' }))
    if (status === 401) expect(headers['www-authenticate']).toBe('DIDAuth realm="https://vault.example"')
    answers.push(status === 401 ? `401 ${text}` : String(status))
  }
  return answers
}

/** Creates the claims of a valid access token of the user, with changes. */
function createClaims(changes: object): object {
  const now = Math.floor(Date.now() / 1_000)
  const ids = { jti: 'j', sid: 's' }
  const claims = {
    iss: serviceWallet.did,
    aud: serviceUrl,
    sub: wallet.did,
    exp: now + 600,
    nbf: now,
    iat: now,
    ...ids
  }
  return { ...claims, use: 'access', ...changes }
}

const signAsService = es256k(serviceWallet.privateKey)
const vc = { '@context': ['https://www.w3.org/2018/credentials/v1'], type: ['VerifiableCredential'] }

describe('an access token at the vault', () => {
  it('opens every guarded route if the service issued it', async () => {
    const token = forgeJwt(HEADER, createClaims({}), signAsService)
    expect(await readAnswers(`DIDAuth ${token}`)).toEqual(['201', ...Array<string>(7).fill('200')])
    await user.read('notes').expect(200, [])
  })

  it.each<[string, () => string | undefined]>([
    ['no token', () => undefined],
    ['a refresh token', () => `DIDAuth ${Buffer.alloc(32, 7).toString('base64url')}`],
    ['a token signed by another key', () => `DIDAuth ${forgeJwt(HEADER, createClaims({}), es256k(wallet.privateKey))}`],
    [
      'a token for another service',
      () => `DIDAuth ${forgeJwt(HEADER, createClaims({ aud: 'https://auth.example' }), signAsService)}`
    ],
    [
      'a relay token',
      () => `DIDAuth ${forgeJwt(HEADER, createClaims({ use: 'relay', aud: undefined, vc }), signAsService)}`
    ]
  ])('is refused by every guarded route with 401, and changes nothing: %s', async (_what, authorization) => {
    const answers = await readAnswers(authorization())
    expect(answers).toHaveLength(8)
    for (const answer of answers) expect(answer).toMatch(/^401 (?:Invalid|Missing) access token$/)
    await user.read('notes').expect(200, ['kept'])
  })

  it('is answered 401 with "Expired access token" after its exp', async () => {
    const now = Math.floor(Date.now() / 1_000)
    const token = forgeJwt(HEADER, createClaims({ iat: now - 600, nbf: now - 600, exp: now }), signAsService)
    expect(await readAnswers(`DIDAuth ${token}`)).toEqual(Array(8).fill('401 Expired access token'))
    await user.read('notes').expect(200, ['kept'])
  })

  it('is not required for reading, which ignores an invalid token', () =>
    user.read('notes').set('Authorization', 'DIDAuth garbage').expect(200, ['kept']))
})

describe('a login at the vault', () =>
  it('accepts no signature over a challenge of the auth server with the same identity', async () => {
    const { body } = await request(vault.listener).post('/request-auth').send({ did: wallet.did })
    for (const [domain, status] of [
      ['auth.example', 401],
      ['vault.example', 200]
    ] as const) {
      const sig = wallet.personalSign(createLoginText(domain, body.challenge))
      await request(vault.listener).post('/auth').send({ did: wallet.did, sig }).expect(status)
    }
  }))

describe('a guarded request', () => {
  it('is refused for its token first, then for its key, its body and lack of space', async () => {
    const { listener } = await startLimited({ VAULT_MAX_BYTES_PER_DID: '1' })
    user = await VaultUser.logIn(listener, wallet)
    await request(listener).put('/auth').send({}).expect(401)
    await request(listener).put('/%00').send({}).expect(401)
    await user.put('%00', 7).expect(400, 'Invalid key')
    await user.put('auth', 7).expect(400, 'Reserved key')
    await user.put('notes', 7).expect(400, 'Invalid content')
    await user.put('notes', '12').expect(507)
  })

  it('counts against the request quota, unlike a read', async () => {
    const { listener } = await startLimited({ MAX_REQUESTS_PER_TIME_SLOT: '2' })
    user = await VaultUser.logIn(listener, wallet)
    await user.post('notes', 'a').expect(201)
    await user.get('storage').expect(200)
    const refused = await user.post('notes', 'b').expect(429)
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0)
    await user.delete('notes').expect(429)
    for (let count = 0; count < 5; count += 1) await user.read('notes').expect(200, ['a'])
  })
})

describe('a vault with USE_COOKIES', () => {
  const origin = 'https://vault.example'
  let cookie = ''
  let listener: TestVault['listener']

  beforeEach(async () => {
    listener = (await startLimited({ USE_COOKIES: 'true' })).listener
    const { body } = await request(listener).post('/request-auth').send({ did: wallet.did })
    const sig = wallet.personalSign(createLoginText('vault.example', body.challenge))
    const { headers } = await request(listener).post('/auth').send({ did: wallet.did, sig }).expect(200)
    cookie = (headers['set-cookie'] as unknown as string[]).map((text) => text.split(';')[0]).join('; ')
  })

  it('opens every guarded route to a cookie from its own origin', async () => {
    const statuses: number[] = []
    for (const [verb, path] of GUARDED) {
      const call = request(listener)[verb](path).set('Cookie', cookie).set('Origin', origin)
      statuses.push((await (verb === 'get' || verb === 'delete' ? call : call.send({ content: 'a' }))).status)
    }
    expect(statuses).toEqual([201, 200, 200, 200, 200, 200, 200, 200])
  })

  it.each(['https://evil.example', 'null'])(
    'refuses a write from the origin %s with 403, also to an invalid key',
    async (foreignOrigin) => {
      for (const [verb, path] of [...GUARDED.slice(0, 5), ['put', '/auth'] as const]) {
        const call = request(listener)[verb](path).set('Cookie', cookie).set('Origin', foreignOrigin)
        const { status, text } = await (verb === 'delete' ? call : call.send({ content: 'a' }))
        expect([verb, status, text]).toEqual([verb, 403, 'Cross-origin request refused'])
      }
      await request(listener).get(`/${wallet.did}/notes`).expect(200, [])
    }
  )
})
