import { describe, expect, it } from '@jest/globals'
import sha3 from 'js-sha3'
import { challengeSecret, START_SECONDS, testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const { did } = walletOf(1)

/** The formula of the specification, with another hash library's call than the code's. */
const CHALLENGE = Buffer.from(sha3.keccak_256.digest([did, challengeSecret, START_SECONDS / 300].join('-'))).toString(
  'hex'
)

describe.each(['/request-auth', '/request-signup'])('POST and GET %s', (path) => {
  it('answer keccak256 of DID, secret and window, 64 hexadecimal characters, and nothing else', async () => {
    const { get, post } = await testApp()
    const posted = await post(path, { did }).expect(200, { challenge: CHALLENGE })
    await get(`${path}/${did}`).expect(200, { challenge: CHALLENGE })
    expect(posted.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'challenge-expires-in': '300'
    })
  })

  it.each([undefined, null, 7, true, ['did:web:a'], { did: 'did:web:a' }, ''])(
    'answer 401 to { did: %j }',
    async (value) => {
      const { post } = await testApp()
      await post(`${path}?did=${did}`, { did: value }).expect(401, 'Invalid DID')
    }
  )

  it('answer 401 to a DID that is badly percent-encoded', async () => {
    const { get } = await testApp()
    for (const text of ['%', '%E0%A4%A', 'did:web:%ff', '%00']) {
      const { headers } = await get(`${path}/${text}`).expect(401, 'Invalid DID')
      expect(headers['www-authenticate']).toBe('DIDAuth realm="https://service.example"')
    }
  })
})

it('the sdr comes with the sign up challenge by POST and GET, and not with that of login', async () => {
  const { get, post } = await testApp({ requiredCredentials: ['Email'] })
  for (const ask of [(path: string) => post(path, { did }), (path: string) => get(`${path}/${did}`)]) {
    await ask('/request-auth').expect(200, { challenge: CHALLENGE })
    const { body } = await ask('/request-signup').expect(200)
    expect(body).toEqual({ challenge: CHALLENGE, sdr: expect.any(String) })
    const [header, payload] = body.sdr.split('.').map((part: string) => Buffer.from(part, 'base64url').toString())
    expect(JSON.parse(header)).toEqual({ alg: 'ES256K', typ: 'JWT' })
    expect(JSON.parse(payload)).toMatchObject({ subject: did, replyUrl: 'https://service.example/signup' })
  }
})
