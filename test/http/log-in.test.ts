import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { type DidAuthConfig } from 'express-did-auth'
import { logIn, loginChallenge, signedLogin, signUpChallenge } from '../support/app-client.js'
import { testApp } from '../support/test-app.js'
import { loginText, walletOf } from '../support/wallet.js'

const wallet = walletOf(1)

describe('POST /auth', () => {
  it('answers tokens for a signed challenge, and the access token opens a guarded route', async () => {
    const { app } = await testApp()
    const { accessToken } = await logIn(app, wallet)
    const me = await request(app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
    expect((me.body as { user: unknown }).user).toEqual({ did: wallet.did })
  })

  it('answers exactly the two tokens, not to be stored by caches', async () => {
    const { app } = await testApp()
    const response = await request(app)
      .post('/auth')
      .send(await signedLogin(app, wallet))
      .expect(200)
    expect(response.body).toEqual({
      accessToken: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]{86}$/),
      refreshToken: expect.stringMatching(/^[\w-]{24}\.[\w-]{43}$/)
    })
    expect(response.headers['cache-control']).toBe('no-store')
    expect(response.headers['set-cookie']).toBeUndefined()
  })

  it('takes { response: { did, sig } } as well', async () => {
    const { app } = await testApp()
    await request(app)
      .post('/auth')
      .send({ response: await signedLogin(app, wallet) })
      .expect(200)
  })

  it.each([
    ['both forms at once', (good: object) => ({ ...good, response: good })],
    ['a form and a stray did', (good: { did: string }) => ({ did: good.did, response: good })],
    ['a form and a stray sig', (good: { sig: string }) => ({ sig: good.sig, response: good })],
    ['a form and stray credentials', (good: object) => ({ credentials: [], response: good })],
    ['a form and stray claims', (good: object) => ({ claims: [], response: good })],
    ['a response that is a string', (good: object) => ({ response: JSON.stringify(good) })],
    ['a response that is an array', (good: object) => ({ response: [good] })],
    ['a response that is null', () => ({ response: null })]
  ])('answers 401 to %s, and spends nothing', async (_name, spoil) => {
    const { app } = await testApp()
    const good = await signedLogin(app, wallet)
    await request(app).post('/auth').send(spoil(good)).expect(401, 'Invalid request')
    await request(app).post('/auth').send(good).expect(200)
  })

  it('answers 401 to an empty body', async () => {
    const { app } = await testApp()
    await request(app).post('/auth').expect(401, 'Invalid DID')
    await request(app).post('/auth').send({}).expect(401, 'Invalid DID')
    await request(app).post('/auth').send({ response: {} }).expect(401, 'Invalid DID')
  })
})

describe('the domain in a signed message', () => {
  const tryDomain = async (config: object, domain: string, headers: Record<string, string> = {}) => {
    const { app } = await testApp(config)
    const sig = wallet.personalSign(loginText(domain, await loginChallenge(app, wallet.did)))
    const response = await request(app).post('/auth').set(headers).send({ did: wallet.did, sig })
    return response.status
  }

  it('may be one of loginDomains', async () => {
    const loginDomains = ['app.example', 'urn:app']
    expect(await tryDomain({ loginDomains }, 'app.example')).toBe(200)
    expect(await tryDomain({ loginDomains }, 'urn:app')).toBe(200)
    expect(await tryDomain({ loginDomains }, 'service.example')).toBe(200)
  })

  it.each(['Host', 'Origin', 'X-Forwarded-Host', 'Forwarded', 'Referer'])('is never taken from %s', async (header) => {
    const value = header === 'Forwarded' ? 'host=evil.example' : 'evil.example'
    expect(await tryDomain({}, 'evil.example', { [header]: value })).toBe(401)
  })

  it.each([
    ['carriage returns', (text: string) => text.replace('\n', '\r\n')],
    ['a line feed at the end', (text: string) => `${text}\n`],
    ['a blank at the end', (text: string) => `${text} `],
    ['another case', (text: string) => text.replace('Login', 'login')],
    ['0x before the challenge', (text: string) => text.replace('code: ', 'code: 0x')],
    ['the challenge in capitals', (text: string) => text.toUpperCase()]
  ])('stands in a message without %s: 401', async (_name, spoil) => {
    const { app } = await testApp()
    const sig = wallet.personalSign(spoil(loginText('service.example', await loginChallenge(app, wallet.did))))
    await request(app).post('/auth').send({ did: wallet.did, sig }).expect(401, 'Invalid challenge response')
  })
})

describe('POST /signup', () => {
  it.each([
    ['credentials that are a string', { credentials: 'a.b.c' }],
    ['credentials that are null', { credentials: null }],
    ['a credential that is a number', { credentials: [7] }],
    ['a credential with a comma', { credentials: ['a.b.c,d.e.f'] }],
    ['21 credentials', { credentials: Array<string>(21).fill('a.b.c') }],
    ['a credential of more than 16 KiB', { credentials: [`a.${'b'.repeat(16 * 1024)}.c`] }],
    ['credentials beside a response', { response: {}, did: undefined, sig: undefined, credentials: [] }],
    ['claims beside a response', { response: {}, did: undefined, sig: undefined, claims: [] }],
    ['claims that are an object', { claims: {} }],
    ['a claim without its value', { claims: [{ claimType: 'name' }] }],
    ['51 claims', { claims: Array<object>(51).fill({ claimType: 'a', claimValue: 'b' }) }]
  ])('answers 401 to %s', async (_name, fields) => {
    // Something decides about credentials, so that a body has space for them.
    const { app } = await testApp({ signupBusinessLogic: () => undefined })
    const sig = wallet.personalSign(loginText('service.example', await signUpChallenge(app, wallet.did)))
    await request(app)
      .post('/signup')
      .send({ did: wallet.did, sig, ...fields })
      .expect(401, 'Invalid request')
  })

  // Cause: anybody could make a service that looks at no credential read and parse 512 KiB with each request.
  it.each<[string, Partial<DidAuthConfig>, number]>([
    ['nothing uses credentials or claims', {}, 16],
    ['credentials are required', { requiredCredentials: ['Email'] }, 512],
    ['claims are required', { requiredClaims: [{ claimType: 'name', claimValue: '' }] }, 512],
    ['signupBusinessLogic is set', { signupBusinessLogic: () => undefined }, 512]
  ])('where %s (%j) reads a body of %d KiB, and answers 413 to one byte more', async (_name, config, kibibytes) => {
    const { app } = await testApp(config)
    const frame = JSON.stringify({ did: '' }).length
    const send = (bytes: number) =>
      request(app)
        .post('/signup')
        .send({ did: 'a'.repeat(bytes - frame) })
    await send(kibibytes * 1024).expect(401, 'Invalid DID')
    await send(kibibytes * 1024 + 1).expect(413, 'Request too large')
  })

  it('gives business logic what was disclosed, and what is missing', async () => {
    const seen: unknown[] = []
    const { app } = await testApp({
      requiredCredentials: ['Email'],
      requiredClaims: [{ claimType: 'name', claimValue: '', essential: true }],
      signupBusinessLogic: (response) => void seen.push(response)
    })
    const challenge = await signUpChallenge(app, wallet.did)
    const sig = wallet.personalSign(loginText('service.example', challenge))
    const claims = [{ claimType: 'city', claimValue: 'Lima' }]
    await request(app).post('/signup').send({ did: wallet.did, sig, claims }).expect(200)
    expect(seen).toEqual([
      {
        issuer: wallet.did,
        subject: expect.stringMatching(/^did:ethr:rsk:0x/),
        claims,
        credentials: [],
        missing: { credentials: ['Email'], claims: ['name'] }
      }
    ])
  })
})
