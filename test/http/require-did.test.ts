import { describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { createJWT, ES256KSigner, hexToBytes } from 'did-jwt'
import { serviceUrl, serviceWallet, START_SECONDS, testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
const address = wallet.address.toLowerCase()

describe('requireDid', () => {
  it('sets req.user to the DID and req.auth to session and claims, in place of what other middleware has set', async () => {
    const { logIn, me, requireDid } = await testApp(
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
    const { accessToken } = await logIn()
    const [session] = await requireDid.sessions.list(wallet.did)
    const { sessionId } = session!
    expect((await me(accessToken).expect(200)).body).toEqual({
      user: { did: wallet.did },
      auth: {
        sessionId,
        canonicalDid: wallet.did,
        address,
        claims: {
          iss: serviceWallet.did,
          aud: serviceUrl,
          sub: wallet.did,
          exp: START_SECONDS + 600,
          nbf: START_SECONDS,
          iat: START_SECONDS,
          jti: expect.stringMatching(/^[\w-]{22}$/),
          sid: sessionId,
          use: 'access'
        }
      }
    })
  })

  it('gives the DID as received, and beside it the two forms that can be compared', async () => {
    const { logIn, me } = await testApp()
    const did = `did:ethr:RSK:${wallet.address}`
    const { accessToken } = await logIn(wallet, did)
    const expected = { user: { did }, auth: { canonicalDid: wallet.did, address } }
    expect((await me(accessToken).expect(200)).body).toMatchObject(expected)
  })

  it('guards a whole router, and routes of every method', async () => {
    const { app, logIn } = await testApp(
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
    const { accessToken } = await logIn()
    for (const method of ['get', 'post', 'put', 'patch', 'delete'] as const) {
      const send = () => request(app)[method]('/api/thing')
      await send().expect(401, 'Missing access token')
      await send().set('Authorization', `DIDAuth ${accessToken}`).expect(200, { did: wallet.did })
    }
  })

  it('accepts the scheme in any case, with any number of blanks behind it', async () => {
    const { logIn, me } = await testApp()
    const { accessToken } = await logIn()
    for (const scheme of ['DIDAuth', 'didauth', 'DIDAUTH  ', 'DidAuth']) {
      await me({ Authorization: `${scheme} ${accessToken}` }).expect(200)
    }
  })

  it.each(['Bearer T', 'Basic T', 'T', 'DIDAuthT', 'DIDAuth', 'DIDAuth T T', 'DIDAuth "T"', 'DIDAuth,T', 'DIDAuth T,'])(
    'answers 401 to Authorization: %s',
    async (form) => {
      const { logIn, me } = await testApp()
      const { accessToken } = await logIn()
      await me({ Authorization: form.replaceAll('T', accessToken) }).expect(401, 'Invalid access token')
    }
  )

  it('answers 401 without a token, to a cookie where cookies are off, and to a token in the query', async () => {
    const { logIn, me, get } = await testApp()
    const { accessToken } = await logIn()
    const { headers } = await me().expect(401, 'Missing access token')
    expect(headers['www-authenticate']).toBe('DIDAuth realm="https://service.example"')
    await me({ Cookie: `authorization=${accessToken}` }).expect(401, 'Missing access token')
    await get(`/me?access_token=${accessToken}`).expect(401, 'Missing access token')
  })

  it("accepts a token without use, sid and jti, made elsewhere with the service's key; logout then ends nothing", async () => {
    const { logIn, me, logOut, requireDid } = await testApp()
    await logIn()
    const times = { iat: START_SECONDS, nbf: START_SECONDS, exp: START_SECONDS + 60 }
    const signer = ES256KSigner(hexToBytes(serviceWallet.privateKey.slice(2)))
    const options = { issuer: serviceWallet.did, signer }
    const token = await createJWT({ aud: serviceUrl, sub: wallet.did, ...times }, options, { alg: 'ES256K' })
    expect((await me(token).expect(200)).body.auth).not.toHaveProperty('sessionId')
    await logOut(token).expect(200)
    expect(await requireDid.sessions.list(wallet.did)).toHaveLength(1)
  })
})
