import { describe, expect, it } from '@jest/globals'
import sha3 from 'js-sha3'
import request from 'supertest'
import { logIn, loginChallenge, signUpChallenge } from '../support/app-client.js'
import { challengeSecret, START_SECONDS, testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)

/** The formula of the specification, with another hash library's call than the code's. */
function formula(did: string, ...rest: (string | number)[]): string {
  return Buffer.from(sha3.keccak_256.digest([did, challengeSecret, ...rest].join('-'))).toString('hex')
}

describe.each(['/request-auth', '/request-signup'])('POST and GET %s', (path) => {
  it('answer keccak256 of DID, secret and window, 64 hexadecimal characters, and nothing else', async () => {
    const { app } = await testApp()
    const expected = { challenge: formula(wallet.did, START_SECONDS / 300) }
    const posted = await request(app).post(path).send({ did: wallet.did }).expect(200)
    const got = await request(app).get(`${path}/${wallet.did}`).expect(200)
    expect(posted.body).toEqual(expected)
    expect(got.body).toEqual(expected)
    expect(posted.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'challenge-expires-in': '300'
    })
  })

  it('answer the same value in the last second of a window, and another in the next', async () => {
    const { app, clock } = await testApp()
    const ask = async () => request(app).get(`${path}/${wallet.did}`).expect(200)
    const first = await ask()
    clock.seconds = START_SECONDS + 299
    const last = await ask()
    expect(last.body).toEqual(first.body)
    expect(last.headers['challenge-expires-in']).toBe('1')
    clock.seconds = START_SECONDS + 300
    const next = await ask()
    expect(next.body).toEqual({ challenge: formula(wallet.did, START_SECONDS / 300 + 1) })
    expect(next.headers['challenge-expires-in']).toBe('300')
  })

  it('answer each spelling of a DID its own challenge', async () => {
    const { app } = await testApp()
    const spelling = `did:ethr:rsk:${wallet.address}`
    const response = await request(app).post(path).send({ did: spelling }).expect(200)
    expect(response.body).toEqual({ challenge: formula(spelling, START_SECONDS / 300) })
  })

  it.each([
    'did:web:example.com',
    'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK',
    'did:example:a:b:c',
    `did:example:${'a'.repeat(116)}`
  ])('answer a challenge for %s', async (did) => {
    const { app } = await testApp()
    await request(app).post(path).send({ did }).expect(200)
    await request(app).get(`${path}/${did}`).expect(200)
  })

  it.each([
    ['no DID', 'hello'],
    ['a DID of 129 characters', `did:example:${'a'.repeat(117)}`],
    ['a method in capitals', 'did:ETHR:0x7e5f4552091a69125d5dfcb7b8c2659029395bdf'],
    ['a DID that ends on a colon', 'did:example:'],
    ['a DID URL', 'did:example:a#key'],
    ['a letter beyond ASCII', 'did:example:ä']
  ])('answer 401 to %s', async (_name, did) => {
    const { app } = await testApp()
    await request(app).post(path).send({ did }).expect(401, 'Invalid DID')
    await request(app)
      .get(`${path}/${encodeURIComponent(did)}`)
      .expect(401, 'Invalid DID')
  })

  it.each([[undefined], [null], [7], [true], [['did:web:a']], [{ did: 'did:web:a' }], ['']])(
    'answer 401 to { did: %j }',
    async (did) => {
      const { app } = await testApp()
      await request(app).post(path).send({ did }).expect(401, 'Invalid DID')
    }
  )

  it('answer 401 to a DID that is badly percent-encoded', async () => {
    const { app } = await testApp()
    for (const did of ['%', '%E0%A4%A', 'did:web:%ff', '%00']) {
      const response = await request(app).get(`${path}/${did}`).expect(401, 'Invalid DID')
      expect(response.headers['www-authenticate']).toBe('DIDAuth realm="https://service.example"')
    }
  })

  it('take no DID from a query', async () => {
    const { app } = await testApp()
    await request(app).post(`${path}?did=${wallet.did}`).send({}).expect(401, 'Invalid DID')
  })
})

describe('the number of a challenge', () => {
  it('is raised by a login, for login and sign up alike', async () => {
    const { app } = await testApp()
    await logIn(app, wallet)
    const second = formula(wallet.did, START_SECONDS / 300, 1)
    expect(await loginChallenge(app, wallet.did)).toBe(second)
    expect(await signUpChallenge(app, wallet.did)).toBe(second)
  })

  it('follows challengeExpirationTimeInSeconds', async () => {
    const { app, clock } = await testApp({ challengeExpirationTimeInSeconds: 60 })
    clock.seconds = START_SECONDS + 61
    const response = await request(app).get(`/request-auth/${wallet.did}`).expect(200)
    expect(response.body).toEqual({ challenge: formula(wallet.did, 30_000_001) })
    expect(response.headers['challenge-expires-in']).toBe('59')
  })
})

describe('the sdr', () => {
  const required = {
    requiredCredentials: ['Email'],
    requiredClaims: [{ claimType: 'name', claimValue: '', essential: true }]
  }

  it.each(['post', 'get'] as const)(
    'comes with the sign up challenge by %s, and not with that of login',
    async (how) => {
      const { app } = await testApp(required)
      const ask = (path: string) =>
        how === 'post' ? request(app).post(path).send({ did: wallet.did }) : request(app).get(`${path}/${wallet.did}`)
      expect(Object.keys((await ask('/request-auth').expect(200)).body)).toEqual(['challenge'])
      const { body } = await ask('/request-signup').expect(200)
      const { challenge, sdr } = body as { challenge: string; sdr: string }
      expect(challenge).toBe(formula(wallet.did, START_SECONDS / 300))
      const [header, payload] = sdr.split('.').map((part) => Buffer.from(part, 'base64url').toString())
      expect(JSON.parse(header!)).toEqual({ alg: 'ES256K', typ: 'JWT' })
      expect(JSON.parse(payload!)).toMatchObject({
        issuer: expect.stringMatching(/^did:ethr:rsk:0x/),
        subject: wallet.did,
        credentials: ['Email'],
        claims: [{ claimType: 'name', claimValue: '', essential: true }],
        replyUrl: 'https://service.example/signup',
        exp: START_SECONDS + 300
      })
    }
  )

  it('is no access token', async () => {
    const { app } = await testApp(required)
    const { body } = await request(app).get(`/request-signup/${wallet.did}`).expect(200)
    await request(app)
      .get('/me')
      .set('Authorization', `DIDAuth ${(body as { sdr: string }).sdr}`)
      .expect(401, 'Invalid access token')
  })
})
