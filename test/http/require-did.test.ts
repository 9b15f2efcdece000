import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { createJWT, ES256KSigner, hexToBytes } from 'did-jwt'
import { logIn } from '../support/app-client.js'
import { serviceUrl, serviceWallet, START_SECONDS, testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const me = (app: Parameters<typeof request>[0], authorization: string) =>
  request(app).get('/me').set('Authorization', authorization)

describe('requireDid', () => {
  it('sets req.user to the DID and req.auth to session and claims', async () => {
    const { app, requireDid } = await testApp()
    const { accessToken } = await logIn(app, wallet)
    const [session] = await requireDid.sessions.list(wallet.did)
    const response = await me(app, `DIDAuth ${accessToken}`).expect(200)
    expect(response.body).toEqual({
      user: { did: wallet.did },
      auth: {
        sessionId: session!.sessionId,
        canonicalDid: wallet.did,
        address: wallet.address.toLowerCase(),
        claims: {
          iss: serviceWallet.did,
          aud: serviceUrl,
          sub: wallet.did,
          exp: START_SECONDS + 600,
          nbf: START_SECONDS,
          iat: START_SECONDS,
          jti: expect.stringMatching(/^[\w-]{22}$/),
          sid: session!.sessionId,
          use: 'access'
        }
      }
    })
  })

  it('gives the DID as received, and beside it the two forms that can be compared', async () => {
    const { app } = await testApp()
    const spelled = `did:ethr:RSK:${wallet.address}`
    const { accessToken } = await logIn(app, wallet, spelled)
    expect((await me(app, `DIDAuth ${accessToken}`).expect(200)).body).toMatchObject({
      user: { did: spelled },
      auth: { canonicalDid: wallet.did, address: wallet.address.toLowerCase() }
    })
  })

  it('takes the place of a req.user that other middleware has set', async () => {
    const { app } = await testApp(
      {},
      {
        before: (host) =>
          host.use((req, _res, next) => {
            req.user = { did: 'did:web:forged' }
            req.auth = undefined
            next()
          })
      }
    )
    const { accessToken } = await logIn(app, wallet)
    const { body } = await me(app, `DIDAuth ${accessToken}`).expect(200)
    expect((body as { user: unknown }).user).toEqual({ did: wallet.did })
  })

  it('guards a whole router, and routes of every method', async () => {
    const { app } = await testApp(
      {},
      {
        after: (host, requireDid) => {
          host.use('/api', requireDid)
          host.all('/api/thing', (req, res) => {
            res.json(req.user)
          })
        }
      }
    )
    const { accessToken } = await logIn(app, wallet)
    for (const method of ['get', 'post', 'put', 'patch', 'delete'] as const) {
      await request(app)[method]('/api/thing').expect(401, 'Missing access token')
      const good = await request(app)[method]('/api/thing').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
      expect(good.body).toEqual({ did: wallet.did })
    }
  })

  it.each(['DIDAuth', 'didauth', 'DIDAUTH', 'DidAuth'])('accepts the scheme spelled %s', async (scheme) => {
    const { app } = await testApp()
    const { accessToken } = await logIn(app, wallet)
    await me(app, `${scheme} ${accessToken}`).expect(200)
    await me(app, `${scheme}   ${accessToken}`).expect(200)
  })

  it.each(['Bearer T', 'Basic T', 'T', 'DIDAuthT', 'DIDAuth', 'DIDAuth T T', 'DIDAuth "T"', 'DIDAuth,T', 'DIDAuth T,'])(
    'answers 401 to Authorization: %s',
    async (form) => {
      const { app } = await testApp()
      const { accessToken } = await logIn(app, wallet)
      await me(app, form.replaceAll('T', accessToken)).expect(401, 'Invalid access token')
    }
  )

  it('answers 401 without a token, and 401 to a cookie where cookies are off', async () => {
    const { app } = await testApp()
    const { accessToken } = await logIn(app, wallet)
    const response = await request(app).get('/me').expect(401, 'Missing access token')
    expect(response.headers['www-authenticate']).toBe('DIDAuth realm="https://service.example"')
    await request(app).get('/me').set('Cookie', `authorization=${accessToken}`).expect(401, 'Missing access token')
    await request(app).get(`/me?access_token=${accessToken}`).expect(401, 'Missing access token')
  })

  it('accepts a token until the second before exp, and answers `Expired access token` from then on', async () => {
    const { app, clock } = await testApp()
    const { accessToken } = await logIn(app, wallet)
    clock.seconds = START_SECONDS + 599
    await me(app, `DIDAuth ${accessToken}`).expect(200)
    clock.seconds = START_SECONDS + 600
    const response = await me(app, `DIDAuth ${accessToken}`).expect(401, 'Expired access token')
    expect(response.headers['content-type']).toBe('text/plain; charset=utf-8')
  })

  describe("with a token made elsewhere with the service's key", () => {
    const sign = (payload: object, { alg = 'ES256K', key = serviceWallet.privateKey } = {}): Promise<string> =>
      createJWT(
        {
          aud: serviceUrl,
          sub: wallet.did,
          iat: START_SECONDS,
          nbf: START_SECONDS,
          exp: START_SECONDS + 60,
          ...payload
        },
        { issuer: serviceWallet.did, signer: ES256KSigner(hexToBytes(key.slice(2)), alg === 'ES256K-R') },
        { alg }
      )

    it('accepts it without use, sid and jti; logout then ends nothing', async () => {
      const { app, requireDid } = await testApp()
      await logIn(app, wallet)
      const token = await sign({})
      const { body } = await me(app, `DIDAuth ${token}`).expect(200)
      expect((body as { auth: object }).auth).not.toHaveProperty('sessionId')
      await request(app).post('/logout').set('Authorization', `DIDAuth ${token}`).expect(200)
      expect(await requireDid.sessions.list(wallet.did)).toHaveLength(1)
    })
  })

  it('adds the claims of business logic to the token, but lets it override nothing', async () => {
    const { app } = await testApp({
      authenticationBusinessLogic: () => ({ tokenClaims: { role: 'admin', sub: 'did:web:forged', exp: 1 } })
    })
    const { accessToken, refreshToken } = await logIn(app, wallet)
    const claimsOf = async (token: string) =>
      ((await me(app, `DIDAuth ${token}`).expect(200)).body as { auth: { claims: object } }).auth.claims
    expect(await claimsOf(accessToken)).toMatchObject({ role: 'admin', sub: wallet.did, exp: START_SECONDS + 600 })
    const refreshed = await request(app).post('/refresh-token').send({ refreshToken }).expect(200)
    expect(await claimsOf((refreshed.body as { accessToken: string }).accessToken)).toMatchObject({ role: 'admin' })
  })
})
