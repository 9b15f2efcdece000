import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import { createPublicKey, verify } from 'node:crypto'
import { createJWT, ES256KSigner, hexToBytes, verifyJWT } from 'did-jwt'
import { Resolver } from 'did-resolver'
import { SigningKey } from 'ethers'
import { getResolver } from 'ethr-did-resolver'
import { importJWK, jwtVerify } from 'jose5'
import request from 'supertest'
import { logIn } from '../support/servers/app-client.js'
import { serviceUrl, testApp, type TestApp } from '../support/servers/test-app.js'
import { startChain, type TestChain } from '../support/engines/chain.js'
import { createNumberedWallet, serviceWallet, START_SECONDS } from '../support/fixtures/fixtures.js'

const user = createNumberedWallet(1)

let app: TestApp

beforeEach(async () => {
  app = await testApp()
})

/** The service's public key as a JWK (RFC 8812). */
function serviceJwk(): { kty: string; crv: string; x: string; y: string } {
  const point = Buffer.from(SigningKey.computePublicKey(serviceWallet.privateKey).slice(2), 'hex')
  const coordinate = (from: number): string => point.subarray(from, from + 32).toString('base64url')
  return { kty: 'EC', crv: 'secp256k1', x: coordinate(1), y: coordinate(33) }
}

// jose stays at version 5: later ones use WebCrypto, which has no secp256k1.
describe('an access token of this service', () => {
  it('is verified by OpenSSL with the JWK of the service', async () => {
    const { accessToken } = await logIn(app.app, user)
    const [header = '', payload = '', signature = ''] = accessToken.split('.')
    const key = createPublicKey({ key: serviceJwk(), format: 'jwk' })
    const isSigned = (text: string): boolean =>
      verify('sha256', Buffer.from(text), { key, dsaEncoding: 'ieee-p1363' }, Buffer.from(signature, 'base64url'))
    expect(isSigned(`${header}.${payload}`)).toBe(true)
    expect(isSigned(`${header}.${payload}x`)).toBe(false)
  })

  it('is verified by jose with issuer and audience', async () => {
    const { accessToken } = await logIn(app.app, user)
    const { payload, protectedHeader } = await jwtVerify(accessToken, await importJWK(serviceJwk(), 'ES256K'), {
      algorithms: ['ES256K'],
      issuer: serviceWallet.did,
      audience: 'https://service.example',
      currentDate: new Date(1_800_000_599_000)
    })
    expect(protectedHeader).toEqual({ alg: 'ES256K', typ: 'JWT' })
    expect(payload).toMatchObject({ sub: user.did, exp: 1_800_000_600, use: 'access' })
  })

  it('is refused by jose after its expiry, and for another audience', async () => {
    const { accessToken } = await logIn(app.app, user)
    const key = await importJWK(serviceJwk(), 'ES256K')
    const currentDate = new Date(1_800_000_000_000)
    await expect(jwtVerify(accessToken, key, { currentDate: new Date(1_800_000_600_000) })).rejects.toThrow('exp')
    await expect(jwtVerify(accessToken, key, { currentDate, audience: 'https://other.example' })).rejects.toThrow('aud')
  })

  describe('at did-jwt, with the issuer resolved on a chain', () => {
    let chain: TestChain

    beforeAll(async () => {
      chain = await startChain()
    })

    afterAll(() => chain.stop())

    const verifyThere = async (token: string, audience: string, now: number): Promise<unknown> => {
      const networks = [{ name: 'rsk', chainId: 31, rpcUrl: chain.rpcUrl, registry: chain.registry }]
      // Two versions of did-resolver: one class to JavaScript.
      const resolver = new Resolver(getResolver({ networks }) as never)
      const { payload } = await verifyJWT(token, { resolver, audience, policies: { now }, skewTime: 0 })
      return payload.sub
    }

    it("is valid for this service's audience until its exp", async () => {
      const { accessToken } = await logIn(app.app, user)
      expect(await verifyThere(accessToken, serviceUrl, START_SECONDS)).toBe(user.did)
      expect(await verifyThere(accessToken, serviceUrl, START_SECONDS + 599)).toBe(user.did)
      await expect(verifyThere(accessToken, serviceUrl, START_SECONDS + 601)).rejects.toThrow('expired')
    })

    it('is invalid for another audience', async () => {
      const { accessToken } = await logIn(app.app, user)
      await expect(verifyThere(accessToken, 'https://other.example', START_SECONDS)).rejects.toThrow('audience')
    })
  })
})

// Anybody gets one, signed by the key of the tokens, for their audience.
describe("this service's selective disclosure request", () => {
  let sdr: string

  beforeEach(async () => {
    const asking = await testApp({ requiredClaims: [{ claimType: 'email', claimValue: '' }] })
    const { body } = await request(asking.app).post('/request-signup').send({ did: user.did }).expect(200)
    sdr = body.sdr
  })

  /** Returns whether a token is an access token, by the rule in src/verify/README.md. */
  const isAccessToken = ({ sub, use }: Record<string, unknown>): boolean => typeof sub === 'string' && use === 'access'

  it('is accepted by jose with only issuer and audience, and refused with sub and use required', async () => {
    const { accessToken } = await logIn(app.app, user)
    const key = await importJWK(serviceJwk(), 'ES256K')
    const currentDate = new Date(START_SECONDS * 1000)
    const usual = { algorithms: ['ES256K'], issuer: serviceWallet.did, audience: serviceUrl, currentDate }
    const required = { ...usual, requiredClaims: ['sub', 'use'] }
    expect(isAccessToken((await jwtVerify(sdr, key, usual)).payload)).toBe(false)
    await expect(jwtVerify(sdr, key, required)).rejects.toThrow('missing required')
    expect(isAccessToken((await jwtVerify(accessToken, key, required)).payload)).toBe(true)
  })

  it('is accepted by did-jwt with only its audience, and refused with sub and use required', async () => {
    const { accessToken } = await logIn(app.app, user)
    const verificationMethod = {
      id: '#k',
      type: 'JsonWebKey2020',
      controller: serviceWallet.did,
      publicKeyJwk: serviceJwk()
    }
    const didDocument = { id: serviceWallet.did, verificationMethod: [verificationMethod], assertionMethod: ['#k'] }
    const resolver = { resolve: async () => ({ didDocument, didDocumentMetadata: {}, didResolutionMetadata: {} }) }
    const options = { resolver: resolver as never, audience: serviceUrl, policies: { now: START_SECONDS }, skewTime: 0 }
    const [ofRequest, ofToken] = [await verifyJWT(sdr, options), await verifyJWT(accessToken, { ...options })]
    expect([ofRequest.verified, ofRequest.issuer]).toEqual([true, serviceWallet.did])
    expect([isAccessToken(ofRequest.payload), isAccessToken(ofToken.payload)]).toEqual([false, true])
  })
})

describe('a token that did-jwt creates with the key of the service', () => {
  const required = { aud: serviceUrl, sub: user.did, exp: START_SECONDS + 60, nbf: START_SECONDS, iat: START_SECONDS }

  const issueToken = (payload: object, privateKey = serviceWallet.privateKey, alg = 'ES256K'): Promise<string> =>
    createJWT(
      payload,
      { issuer: serviceWallet.did, signer: ES256KSigner(hexToBytes(privateKey), alg === 'ES256K-R') },
      { alg }
    )

  const me = (token: string) => request(app.app).get('/me').set('Authorization', `DIDAuth ${token}`)
  const logOut = (token: string) => request(app.app).post('/logout').set('Authorization', `DIDAuth ${token}`)

  it('opens a guarded route with all required claims, without a session', async () => {
    const { status, body } = await me(await issueToken({ ...required, role: 'admin' }))
    expect([status, body]).toEqual([
      200,
      {
        user: { did: user.did },
        auth: {
          canonicalDid: user.did,
          address: user.did.slice(-42),
          claims: { iss: serviceWallet.did, ...required, role: 'admin' }
        }
      }
    ])
  })

  it('logs out with 200 and ends no session', async () => {
    const { refreshToken } = await logIn(app.app, user)
    const token = await issueToken(required)
    const { status, text } = await logOut(token)
    expect([status, text]).toEqual([200, ''])
    await request(app.app).post('/refresh-token').send({ refreshToken }).expect(200)
    await me(token).expect(200)
  })

  it('is refused with another key or another use', async () => {
    expect((await me(await issueToken(required, createNumberedWallet(2).privateKey))).status).toBe(401)
    expect((await me(await issueToken({ ...required, use: 'relay' }))).status).toBe(401)
  })
})
