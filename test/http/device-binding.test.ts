import { describe, expect, it } from '@jest/globals'
import type { DidAuthConfig, SecurityEvent } from 'express-did-auth'
import { decodeJwt } from 'jose'
import { createDevice, type ProofOf } from '../support/fixtures/device.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'
import { createSiweText } from '../support/fixtures/siwe.js'
import { resourceKey, serviceUrl, testApp, type Host } from '../support/servers/test-app.js'

const wallet = createNumberedWallet(1)
const device = createDevice(resourceKey(1))
const thief = createDevice(resourceKey(2))
const asProblem = { Accept: 'application/problem+json' }

/** Returns the first proof with the signature of the second. */
function forge(proof: Record<string, string>, other: Record<string, string>): Record<string, string> {
  const [signed, signature] = [proof.DPoP!.replace(/[^.]*$/, ''), other.DPoP!.replace(/.*\./, '')]
  return { ...proof, DPoP: signed + signature }
}

/** Starts a service with `deviceBinding: 'accepted'`, and helpers that send proofs. */
async function start(config: Partial<DidAuthConfig> = {}, host: Host = {}) {
  const events: SecurityEvent[] = []
  const onSecurityEvent = (event: SecurityEvent): void => void events.push(event)
  const service = await testApp({ deviceBinding: 'accepted', onSecurityEvent, ...config }, host)
  const fetchNonce = async (): Promise<string> => {
    const { headers } = await service.post('/request-auth', { did: wallet.did }).expect(200)
    return String(headers['dpop-nonce'])
  }
  const prove = async (
    path: string,
    changes: Partial<ProofOf> = {},
    prover = device
  ): Promise<Record<string, string>> => {
    const nonce = await fetchNonce()
    return { ...asProblem, DPoP: prover.prove({ url: serviceUrl + path, nonce, ...changes }) }
  }
  const logInBound = async () => {
    const login = await service.createSignedLogin()
    const { body } = await service.post('/auth', login, await prove('/auth')).expect(200)
    return body as { accessToken: string; refreshToken: string }
  }
  return { ...service, events, fetchNonce, prove, logInBound }
}

describe('a login with a device proof', () => {
  it("binds session and access token to the device's key, over refreshes", async () => {
    const { logInBound, refresh, prove } = await start()
    const { accessToken, refreshToken } = await logInBound()
    expect(decodeJwt(accessToken).cnf).toEqual({ jkt: device.jkt })
    const { body } = await refresh(refreshToken, await prove('/refresh-token')).expect(200)
    expect(decodeJwt(body.accessToken).cnf).toEqual({ jkt: device.jkt })
    const { body: later } = await refresh(body.refreshToken, await prove('/refresh-token')).expect(200)
    expect(decodeJwt(later.accessToken).cnf).toEqual({ jkt: device.jkt })
  })

  it('binds a sign up and a login by EIP-4361 as well', async () => {
    const service = await start({ siwe: true })
    const { headers, text: nonce } = await service.get('/siwe/nonce').expect(200)
    const message = createSiweText({ address: wallet.address as `0x${string}` }, nonce)
    const proof = device.prove({ url: `${serviceUrl}/siwe/verify`, nonce: String(headers['dpop-nonce']) })
    const body = { message, signature: wallet.personalSign(message) }
    const siwe = await service.post('/siwe/verify', body, { DPoP: proof }).expect(200)
    expect(decodeJwt(siwe.body.accessToken)).toMatchObject({ cnf: { jkt: device.jkt }, amr: ['eoa'] })
    const { body: requested } = await service.post('/request-signup', { did: wallet.did }).expect(200)
    const sig = wallet.personalSign(`Login to service.example\nVerification code: ${String(requested.challenge)}`)
    const signedUp = await service.post('/signup', { did: wallet.did, sig }, await service.prove('/signup')).expect(200)
    expect(decodeJwt(signedUp.body.accessToken).cnf).toEqual({ jkt: device.jkt })
  })

  it('is refused if the proof is invalid, and the challenge can be used again', async () => {
    const { createSignedLogin, post, prove } = await start()
    const login = await createSignedLogin()
    const refused = await post('/auth', login, await prove('/signup')).expect(401)
    expect(refused.body).toMatchObject({ code: 'ERR_DEVICE_PROOF', title: 'Invalid device proof' })
    await post('/auth', login, { DPoP: '' }).expect(401, 'Invalid device proof')
    await post('/auth', login, await prove('/auth')).expect(200)
  })

  it('sends the next nonce with every answer that a client may prove next', async () => {
    const service = await start({ siwe: true })
    const nonceOf = async (answer: PromiseLike<{ headers: Record<string, string> }>): Promise<string> =>
      String((await answer).headers['dpop-nonce'])
    const text = (await service.get('/siwe/nonce').expect(200)).text
    const message = createSiweText({ address: wallet.address as `0x${string}` }, text)
    // One user for each login, because a login uses up the challenge of its user.
    const [newUser, other] = [createNumberedWallet(2), createNumberedWallet(3)]
    const { body: requested } = await service.post('/request-signup', { did: newUser.did })
    const sig = newUser.personalSign(`Login to service.example\nVerification code: ${String(requested.challenge)}`)
    const answers = [
      service.post('/request-auth', { did: wallet.did }),
      service.get(`/request-auth/${wallet.did}`),
      service.post('/request-signup', { did: wallet.did }),
      service.post('/siwe/nonce'),
      service.post('/siwe/verify', { message, signature: wallet.personalSign(message) }),
      service.post('/signup', { did: newUser.did, sig }),
      service.post('/auth', await service.createSignedLogin(other)),
      service.refresh((await service.logIn()).refreshToken)
    ]
    for (const answer of answers) expect(await nonceOf(answer.expect(200))).toMatch(/^[0-9a-f]{64}$/)
  })

  it('is refused with the signature of another proof, and with a nonce of EIP-4361', async () => {
    const { createSignedLogin, post, prove, get } = await start({ siwe: true })
    const login = await createSignedLogin()
    const forged = forge(await prove('/auth'), await prove('/auth', { payload: { jti: 'another' } }))
    expect((await post('/auth', login, forged).expect(401)).body).toMatchObject({ code: 'ERR_DEVICE_PROOF' })
    const { text: nonce } = await get('/siwe/nonce').expect(200)
    const foreign = await post('/auth', login, await prove('/auth', { nonce })).expect(401)
    expect(foreign.body).toMatchObject({ code: 'ERR_DEVICE_NONCE' })
  })

  it('is refused without a proof if proofs are required', async () => {
    const { createSignedLogin, post, prove } = await start({ deviceBinding: 'required' })
    const login = await createSignedLogin()
    const { headers } = await post('/auth', login).expect(401, 'Invalid device proof')
    // A client that has no nonce yet takes that of the refusal.
    await post('/auth', login, await prove('/auth', { nonce: String(headers['dpop-nonce']) })).expect(200)
  })

  it('gets a new nonce if that of the proof is absent, foreign or expired, and consumes nothing', async () => {
    const { createSignedLogin, post, prove, fetchNonce, clock } = await start()
    const expired = await fetchNonce()
    // Access tokens live 600 s, and nonces 300 s longer, counted from the end of their slot of 10 s.
    clock.seconds += 600 + 300 + 10
    const login = await createSignedLogin()
    for (const nonce of [undefined, '', '0'.repeat(64), expired]) {
      const { body, headers } = await post('/auth', login, await prove('/auth', { nonce })).expect(401)
      expect(body).toMatchObject({ code: 'ERR_DEVICE_NONCE', title: 'Device proof needs a new nonce' })
      expect(headers['dpop-nonce']).toMatch(/^[0-9a-f]{64}$/)
      if (nonce === expired) {
        const proof = await prove('/auth', { nonce: String(headers['dpop-nonce']) })
        await post('/auth', login, proof).expect(200)
      }
    }
  })

  it('accepts a nonce one second before it expires', async () => {
    const { createSignedLogin, post, prove, fetchNonce, clock } = await start()
    const nonce = await fetchNonce()
    clock.seconds += 600 + 300 + 9
    await post('/auth', await createSignedLogin(), await prove('/auth', { nonce })).expect(200)
  })

  it('is charged as a failed proof if it is refused, up to 429', async () => {
    const { createSignedLogin, post, prove, events } = await start({ maxRequestsPerTimeSlot: 1 })
    const login = await createSignedLogin()
    const refused = await prove('/signup')
    for (let count = 0; count < 100; count += 1) await post('/auth', login, refused).expect(401)
    await post('/auth', login, refused).expect(429)
    expect(events.filter(({ type }) => type === 'proof-refused')).toHaveLength(100)
    expect(events[0]).toMatchObject({ code: 'ERR_DEVICE_PROOF', did: wallet.did })
  })

  it('opens an unbound session without a proof, whose refreshes ignore proofs', async () => {
    const { logIn, refresh } = await start()
    const { accessToken, refreshToken } = await logIn()
    expect(decodeJwt(accessToken)).not.toHaveProperty('cnf')
    await refresh(refreshToken, { DPoP: 'not a proof' }).expect(200)
  })
})

describe('GET /session', () => {
  it('shows that the session is bound, by either token, and nothing of it for an unbound session', async () => {
    const { post, get, createSignedLogin, prove } = await start({ useCookies: true, sessionPath: '/session' })
    const readBinding = async (headers: Record<string, string>): Promise<unknown[]> => {
      const answer = await post('/auth', await createSignedLogin(), headers).expect(200)
      const cookies = (answer.headers['set-cookie'] as unknown as string[]).map((cookie) => cookie.split(';')[0]!)
      const shown: unknown[] = []
      for (const Cookie of [cookies.join('; '), cookies[1]!]) {
        shown.push(((await get('/session', { Cookie }).expect(200)).body as { isDeviceBound?: unknown }).isDeviceBound)
      }
      return shown
    }
    expect(await readBinding(await prove('/auth'))).toEqual([true, true])
    expect(await readBinding({})).toEqual([undefined, undefined])
  })
})

describe('the refresh of a bound session', () => {
  it('is refused without the proof of its device; nothing is consumed, and the device can still refresh', async () => {
    const { logInBound, refresh, prove, events } = await start()
    const { refreshToken } = await logInBound()
    const proofs = [
      asProblem,
      await prove('/refresh-token', {}, thief),
      await prove('/auth'),
      forge(await prove('/refresh-token'), await prove('/refresh-token', { payload: { jti: 'another' } })),
      { ...asProblem, DPoP: 'not a proof' }
    ]
    events.length = 0
    for (const headers of proofs) {
      const { body } = await refresh(refreshToken, headers).expect(401)
      expect(body).toMatchObject({ code: 'ERR_DEVICE_PROOF' })
    }
    const mismatch = { type: 'device-mismatch', did: wallet.did, sessionId: refreshToken.split('.')[0] }
    expect(events).toEqual(
      proofs.map(() => expect.objectContaining({ ...mismatch, clientNetwork: expect.any(String) }))
    )
    await refresh(refreshToken, await prove('/refresh-token')).expect(200)
  })

  it('asks for a new nonce, and reports no theft', async () => {
    const { logInBound, refresh, prove, events } = await start()
    const { refreshToken } = await logInBound()
    events.length = 0
    const { body, headers } = await refresh(refreshToken, await prove('/refresh-token', { nonce: undefined })).expect(
      401
    )
    expect(body).toMatchObject({ code: 'ERR_DEVICE_NONCE' })
    expect(events).toEqual([])
    const nonce = String(headers['dpop-nonce'])
    await refresh(refreshToken, await prove('/refresh-token', { nonce })).expect(200)
  })

  it('repeats a lost answer with the same key and a new proof', async () => {
    const { logInBound, refresh, prove } = await start()
    const { refreshToken } = await logInBound()
    const key = { 'Idempotency-Key': 'a-key-of-22-characters' }
    const { body } = await refresh(refreshToken, { ...key, ...(await prove('/refresh-token')) }).expect(200)
    const repeated = await refresh(refreshToken, { ...key, ...(await prove('/refresh-token')) }).expect(200)
    expect(repeated.body.refreshToken).toBe(body.refreshToken)
    await refresh(refreshToken, { ...key, ...(await prove('/refresh-token', {}, thief)) }).expect(401)
  })

  it('answers an unknown token as before, and charges nothing', async () => {
    const { refresh, prove, events } = await start()
    const unknown = `${'a'.repeat(24)}.${'b'.repeat(43)}`
    await refresh(unknown, { ...(await prove('/refresh-token', {}, thief)), Accept: 'text/plain' }).expect(
      401,
      'Invalid refresh token'
    )
    expect(events).toEqual([])
  })

  it('refuses a thief with 429 after many proofs, while the device still refreshes', async () => {
    const { logInBound, refresh, prove, events } = await start({ maxRequestsPerTimeSlot: 2 })
    const { refreshToken } = await logInBound()
    await refresh(refreshToken).expect(401)
    await refresh(refreshToken).expect(401)
    await refresh(refreshToken).expect(429)
    expect(events.filter(({ type }) => type === 'device-mismatch')).toHaveLength(2)
    await refresh(refreshToken, await prove('/refresh-token')).expect(200)
  })

  it('needs the proof with `deviceBinding: off` too, while logins bind nothing and get no nonce', async () => {
    const { memoryStore } = await import('express-did-auth')
    const store = memoryStore()
    const before = await start({ store })
    const { refreshToken } = await before.logInBound()
    const { refresh, post, createSignedLogin } = await start({ store, deviceBinding: 'off' })
    await refresh(refreshToken).expect(401, 'Invalid device proof')
    const { headers } = await refresh(refreshToken, await before.prove('/refresh-token')).expect(200)
    expect(headers).not.toHaveProperty('dpop-nonce')
    const login = await post('/auth', await createSignedLogin(), { DPoP: 'not a proof' }).expect(200)
    expect(decodeJwt(login.body.accessToken)).not.toHaveProperty('cnf')
    expect(login.headers).not.toHaveProperty('dpop-nonce')
  })

  it('works in cookie mode', async () => {
    const { post, createSignedLogin, prove } = await start({ useCookies: true })
    const { headers } = await post('/auth', await createSignedLogin(), await prove('/auth')).expect(200)
    const Cookie = (headers['set-cookie'] as unknown as string[]).map((cookie) => cookie.split(';')[0]).join('; ')
    await post('/refresh-token', {}, { Cookie }).expect(401, 'Invalid device proof')
    await post('/refresh-token', {}, { Cookie, ...(await prove('/refresh-token')) }).expect(200)
  })

  it('keeps the binding if business logic replaces the claims, and cannot set one', async () => {
    const claims = () => ({ tokenClaims: { role: 'admin', cnf: { jkt: thief.jkt } } })
    const config = { authenticationBusinessLogic: claims, refreshBusinessLogic: claims }
    const { logInBound, refresh, prove, logIn } = await start(config)
    const { refreshToken } = await logInBound()
    const { body } = await refresh(refreshToken, await prove('/refresh-token')).expect(200)
    expect(decodeJwt(body.accessToken)).toMatchObject({ role: 'admin', cnf: { jkt: device.jkt } })
    expect(decodeJwt((await logIn()).accessToken)).not.toHaveProperty('cnf')
  })
})

describe('the URL in a device proof', () => {
  const accepts = async (url: string, config: Partial<DidAuthConfig> = {}, host: Host = {}): Promise<number> => {
    const { post, fetchNonce } = await start(config, host).then((service) => ({
      ...service,
      fetchNonce: async () => {
        const prefix = host.prefix ?? ''
        const { headers } = await service.post(`${prefix}/request-auth`, { did: wallet.did }).expect(200)
        return String(headers['dpop-nonce'])
      }
    }))
    const prefix = host.prefix ?? ''
    const { body } = await post(`${prefix}/request-auth`, { did: wallet.did })
    const sig = wallet.personalSign(`Login to service.example\nVerification code: ${String(body.challenge)}`)
    const DPoP = device.prove({ url, nonce: await fetchNonce() })
    return (await post(`${prefix}/auth`, { did: wallet.did, sig }, { DPoP })).status
  }

  it.each(['https://service.example/auth?a=b#c', 'HTTPS://Service.example:443/x/../auth'])(
    'is accepted as %s',
    async (url) => {
      expect(await accepts(url)).toBe(200)
    }
  )

  it.each([
    'https://service.example/refresh-token',
    'https://service.example/AUTH',
    'https://service.example/auth/',
    'http://service.example/auth',
    'https://other.example/auth',
    'https://user@service.example/auth',
    'https://service.example:8443/auth',
    '/auth',
    ''
  ])('is refused as %s', async (url) => {
    expect(await accepts(url)).toBe(401)
  })

  it('may have the origin of a trusted page, which a proxy of that page serves', async () => {
    const trustedOrigins = ['https://app.example']
    expect(await accepts('https://app.example/auth', { trustedOrigins })).toBe(200)
  })

  it('has the mount path, and the path of serviceUrl if a proxy removes it', async () => {
    const [prefix, config] = ['/login', { serviceUrl: 'https://service.example/v1', loginDomains: ['service.example'] }]
    expect(await accepts('https://service.example/v1/login/auth', config, { prefix })).toBe(200)
    expect(await accepts('https://service.example/login/auth', config, { prefix })).toBe(200)
    expect(await accepts('https://service.example/v1/auth', config, { prefix })).toBe(401)
    const mounted = { ...config, serviceUrl: 'https://service.example/v1/login' }
    expect(await accepts('https://service.example/v1/login/auth', mounted, { prefix })).toBe(200)
    expect(await accepts('https://service.example/v1/login/login/auth', mounted, { prefix })).toBe(200)
    expect(await accepts('https://service.example/login/v1/auth', mounted, { prefix })).toBe(401)
  })
})

describe('requireDid.with({ deviceProof: true })', () => {
  const guarded: Host = {
    after: (app, requireDid) =>
      app.get('/pay', requireDid.with({ deviceProof: true }), (_req, res) => void res.json('paid'))
  }
  const url = `${serviceUrl}/pay`

  it('accepts a proof with the hash of the access token, and no other', async () => {
    const { logInBound, get, prove } = await start({}, guarded)
    const { accessToken } = await logInBound()
    const authorization = { Authorization: `DIDAuth ${accessToken}` }
    const pay = async (changes: Partial<ProofOf>, prover = device) =>
      get('/pay?a=1', {
        ...authorization,
        ...(await prove('', { url, method: 'GET', accessToken, ...changes }, prover))
      })
    expect((await pay({})).body).toBe('paid')
    const refusals = [
      { accessToken: 'another' },
      { payload: { ath: undefined } },
      { method: 'POST' },
      { url: serviceUrl }
    ]
    for (const changes of refusals) expect((await pay(changes)).body).toMatchObject({ code: 'ERR_DEVICE_PROOF' })
    expect((await pay({}, thief)).body).toMatchObject({ code: 'ERR_DEVICE_PROOF' })
    expect((await pay({ nonce: undefined })).body).toMatchObject({ code: 'ERR_DEVICE_NONCE' })
    await get('/pay', authorization).expect(401, 'Invalid device proof')
  })

  it('refuses the token of an unbound session; other guards ignore the binding', async () => {
    const { logIn, logInBound, get, prove, me } = await start({}, guarded)
    const { accessToken } = await logIn()
    const proof = await prove('', { url, method: 'GET', accessToken })
    const { body } = await get('/pay', { Authorization: `DIDAuth ${accessToken}`, ...proof }).expect(401)
    expect(body).toMatchObject({ code: 'ERR_DEVICE_PROOF' })
    await me((await logInBound()).accessToken).expect(200)
  })
})

describe('the configuration of device binding', () => {
  it('needs an origin that proofs can name', async () => {
    const config = { serviceUrl: 'urn:service', deviceBinding: 'accepted' } as const
    await expect(testApp(config)).rejects.toThrow(
      'deviceBinding: received "accepted"; give trustedOrigins, since serviceUrl is not an http(s) URL, or "off"'
    )
    await testApp({ ...config, trustedOrigins: ['https://app.example'] })
  })

  it('shows in discovery that proofs are accepted', async () => {
    const [on, off] = [await start({ discovery: true }), await testApp({ discovery: true })]
    const path = '/.well-known/did-auth.json'
    expect((await on.get(path)).body).toMatchObject({ dpop_signing_alg_values_supported: ['ES256'] })
    expect((await off.get(path)).body).not.toHaveProperty('dpop_signing_alg_values_supported')
  })
})

describe('a token for another service, which is not bound', () => {
  const resource = 'https://orders.example'
  const config = { resources: [resource], resourceKeys: [resourceKey(3)] }
  const path = '/resource-token'

  it('needs a proof of the device with the hash of a bound access token, and has no cnf', async () => {
    const { logInBound, post, prove, events } = await start(config)
    const { accessToken } = await logInBound()
    const ask = (proof: Record<string, string>) =>
      post(path, { resource }, { Authorization: `DIDAuth ${accessToken}`, ...proof })
    const { body } = await ask(await prove(path, { accessToken })).expect(200)
    expect(decodeJwt(body.accessToken)).not.toHaveProperty('cnf')
    events.length = 0
    const refused = [
      asProblem,
      await prove(path),
      await prove(path, { accessToken: 'another' }),
      await prove(path, { accessToken }, thief),
      await prove('/auth', { accessToken })
    ]
    for (const proof of refused) expect((await ask(proof).expect(401)).body).toMatchObject({ code: 'ERR_DEVICE_PROOF' })
    expect(events.map(({ type }) => type)).toEqual(refused.map(() => 'device-mismatch'))
    const late = await ask(await prove(path, { accessToken, nonce: '0'.repeat(64) })).expect(401)
    expect(late.body).toMatchObject({ code: 'ERR_DEVICE_NONCE' })
    expect(late.headers['dpop-nonce']).toMatch(/^[0-9a-f]{64}$/)
  })

  it('needs the proof without that hash for a cookie, which a page cannot read', async () => {
    const { post, createSignedLogin, prove } = await start({ ...config, useCookies: true })
    const { headers } = await post('/auth', await createSignedLogin(), await prove('/auth')).expect(200)
    const cookies = (headers['set-cookie'] as unknown as string[]).map((cookie) => cookie.split(';')[0]!)
    const Cookie = cookies.join('; ')
    await post(path, { resource }, { Cookie }).expect(401, 'Invalid device proof')
    await post(path, { resource }, { Cookie, ...(await prove(path, {}, thief)) }).expect(401)
    await post(path, { resource }, { Cookie, ...(await prove(path)) }).expect(200)
    // A program can read the token that it sends in the header, even if the request also has a cookie.
    const copied = { Authorization: `DIDAuth ${cookies[0]!.split('=')[1]!}`, Cookie: cookies[1]! }
    await post(path, { resource }, { ...copied, ...(await prove(path)) }).expect(401)
  })

  it('needs no proof in an unbound session, which ignores one', async () => {
    const { logIn, post } = await start(config)
    const { accessToken } = await logIn()
    await post(path, { resource }, { Authorization: `DIDAuth ${accessToken}`, DPoP: 'not a proof' }).expect(200)
  })
})
