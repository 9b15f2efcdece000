import { describe, expect, it } from '@jest/globals'
import sha3 from 'js-sha3'
import request from 'supertest'
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
})
