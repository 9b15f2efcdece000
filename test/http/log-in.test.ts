import { describe, expect, it } from '@jest/globals'
import type { DidAuthConfig } from 'express-did-auth'
import { decodeProtectedHeader } from 'jose'
import { requestLoginChallenge, signUpChallenge } from '../support/servers/app-client.js'
import { testApp } from '../support/servers/test-app.js'
import sha3 from 'js-sha3'
import { challengeSecret, createLoginText, createNumberedWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)

describe('POST /auth', () => {
  it('returns exactly the two tokens, not cacheable, and the access token opens a guarded route', async () => {
    const { post, me, createSignedLogin } = await testApp()
    const { body, headers } = await post('/auth', await createSignedLogin()).expect(200)
    expect(body).toEqual({
      accessToken: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]{86}$/),
      refreshToken: expect.stringMatching(/^[\w-]{24}\.[\w-]{43}$/)
    })
    expect(decodeProtectedHeader(body.accessToken)).toEqual({ alg: 'ES256K', typ: 'JWT' })
    expect(headers['cache-control']).toBe('no-store')
    expect(headers['set-cookie']).toBeUndefined()
    expect((await me(body.accessToken).expect(200)).body.user).toEqual({ did: wallet.did })
  })

  it('also accepts { response: { did, sig } }, but not both forms; a refusal consumes nothing', async () => {
    const { post, createSignedLogin } = await testApp()
    const good = await createSignedLogin()
    await post('/auth', { ...good, response: good }).expect(401, 'Invalid request')
    await post('/auth', { response: {} }).expect(401, 'Invalid DID')
    await post('/auth').expect(401, 'Invalid DID')
    await post('/auth', { response: good }).expect(200)
  })

  it.each(['Host', 'Origin', 'X-Forwarded-Host', 'Forwarded', 'Referer'])(
    'never reads the domain of a signed message from %s',
    async (header) => {
      const { app, post } = await testApp()
      const sig = wallet.personalSign(createLoginText('evil.example', await requestLoginChallenge(app, wallet.did)))
      const value = header === 'Forwarded' ? 'host=evil.example' : 'evil.example'
      await post('/auth', { did: wallet.did, sig }, { [header]: value }).expect(401)
    }
  )
})

describe('POST /signup', () => {
  // Cause: anyone could make a service without credentials read and parse 512 KiB per request.
  it.each<[string, Partial<DidAuthConfig>, number]>([
    ['nothing uses credentials or claims', {}, 16],
    ['credentials are required', { requiredCredentials: ['Email'] }, 512],
    ['claims are required', { requiredClaims: [{ claimType: 'name', claimValue: '' }] }, 512],
    ['signupBusinessLogic is set', { signupBusinessLogic: () => undefined }, 512]
  ])('reads, if %s (%j), %d KiB, and responds 413 to one byte more', async (_name, config, kibibytes) => {
    const { post } = await testApp(config)
    const frame = JSON.stringify({ did: '' }).length
    const send = (bytes: number) => post('/signup', { did: 'a'.repeat(bytes - frame) })
    await send(kibibytes * 1024).expect(401, 'Invalid DID')
    await send(kibibytes * 1024 + 1).expect(413, 'Request too large')
  })

  it('passes the claims of its body on', async () => {
    const seen: unknown[] = []
    const { app, post } = await testApp({ signupBusinessLogic: (response) => void seen.push(response) })
    const sig = wallet.personalSign(createLoginText('service.example', await signUpChallenge(app, wallet.did)))
    const claims = [{ claimType: 'city', claimValue: 'Lima' }]
    await post('/signup', { did: wallet.did, sig, claims, credentials: [] }).expect(200)
    expect(seen).toMatchObject([{ issuer: wallet.did, claims, credentials: [] }])
  })
})

const { did } = createNumberedWallet(1)

/** Challenge by the formula of the specification, computed with another hash library. */
const CHALLENGE = Buffer.from(sha3.keccak_256.digest([did, challengeSecret, START_SECONDS / 300].join('-'))).toString(
  'hex'
)

describe.each(['/request-auth', '/request-signup'])('POST and GET %s', (path) => {
  it('respond with keccak256 of DID, secret and window, 64 hexadecimal characters, and nothing else', async () => {
    const { get, post } = await testApp()
    const posted = await post(path, { did }).expect(200, { challenge: CHALLENGE })
    await get(`${path}/${did}`).expect(200, { challenge: CHALLENGE })
    expect(posted.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-store',
      'challenge-expires-in': '300'
    })
  })

  it('respond 401 to an invalid DID, even with a valid one in the query', async () => {
    const { post } = await testApp()
    for (const value of [undefined, { did: 'did:web:a' }, '']) {
      await post(`${path}?did=${did}`, { did: value }).expect(401, 'Invalid DID')
    }
  })

  it('respond 401 to an invalid percent-encoding of a DID', async () => {
    const { get } = await testApp()
    for (const text of ['%', '%E0%A4%A', 'did:web:%ff', '%00']) {
      const { headers } = await get(`${path}/${text}`).expect(401, 'Invalid DID')
      expect(headers['www-authenticate']).toBe('DIDAuth realm="https://service.example"')
    }
  })
})

it('the sign-up challenge has the sdr by POST and GET, and the login challenge has none', async () => {
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
