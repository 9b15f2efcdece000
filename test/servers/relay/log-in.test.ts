import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { createJWT, ES256KSigner, hexToBytes } from 'did-jwt'
import { createVerifiableCredentialJwt } from 'did-jwt-vc'
import { memoryStore } from 'express-did-auth'
import { SigningKey } from 'ethers'
import { parseJwt } from 'express-did-auth/protocol'
import request from 'supertest'
import { ed25519Key, es256kBy, jwtByHand, p256Key } from '../../support/credentials.js'
import {
  loginCredential,
  loginPayload,
  requestChallenge,
  serviceUrl,
  serviceWallet,
  START_SECONDS,
  startTestRelay,
  type TestRelay
} from '../../support/relay-app.js'
import { walletOf } from '../../support/wallet.js'

const wallet = walletOf(1)
const stranger = walletOf(2)

let relay: TestRelay

beforeEach(async () => {
  relay = await startTestRelay()
})

afterEach(() => relay.end())

const auth = (jwt: unknown) => request(relay.listener).post('/auth').send({ jwt })
const challengeOf = (did = wallet.did) => requestChallenge(relay, did)

/** The user that a token is for. */
function userOf({ body }: { body: { token: string } }): string {
  return JSON.parse(Buffer.from(body.token.split('.')[1]!, 'base64url').toString()).sub
}

async function expectRefusal(jwt: unknown, text: string): Promise<void> {
  const answer = await auth(jwt)
  expect([answer.status, answer.text]).toEqual([401, text])
  expect(answer.headers['www-authenticate']).toBe(`DIDAuth realm="${serviceUrl}"`)
}

describe('POST /auth', () => {
  it('answers a token to a credential that holds the challenge', async () => {
    const { status, body, headers } = await auth(loginCredential(wallet, await challengeOf()))
    expect([status, Object.keys(body)]).toEqual([200, ['token']])
    expect(headers['cache-control']).toBe('no-store')
    expect(userOf({ body })).toBe(wallet.did)
  })

  it.each(['ES256K', 'ES256K-R'] as const)('takes %s of a published client, made by did-jwt-vc', async (alg) => {
    const signer = ES256KSigner(hexToBytes(wallet.privateKey), alg === 'ES256K-R')
    const issuer = { did: wallet.did, signer, alg }
    const payload = loginPayload(wallet.did, await challengeOf())
    const { vc } = payload as unknown as { vc: Parameters<typeof createVerifiableCredentialJwt>[0]['vc'] }
    const bare = await createVerifiableCredentialJwt({ vc }, issuer)
    expect((await auth(bare)).status).toBe(200)
    const whole = await createVerifiableCredentialJwt(
      {
        sub: wallet.did,
        nbf: START_SECONDS - 10,
        exp: START_SECONDS + 10,
        aud: [serviceUrl],
        vc: loginPayload(wallet.did, await challengeOf()).vc
      } as never,
      issuer
    )
    expect((await auth(whole)).status).toBe(200)
    const w3c = {
      '@context': ['https://www.w3.org/2018/credentials/v1'],
      type: ['VerifiableCredential'],
      issuer: { id: wallet.did },
      issuanceDate: '2027-01-01T00:00:00Z',
      credentialSubject: {
        id: wallet.did,
        claims: [{ claimType: 'challenge', claimValue: await challengeOf() }]
      }
    }
    expect((await auth(await createVerifiableCredentialJwt(w3c, issuer))).status).toBe(200)
  })

  it.each([
    ['further contexts and types', { '@context': ['https://a.example', 'https://www.w3.org/2018/credentials/v1'] }],
    ['a further type', { type: ['Login', 'VerifiableCredential'] }]
  ])('takes %s', async (_name, changes) => {
    const challenge = await challengeOf()
    const { vc } = loginPayload(wallet.did, challenge)
    expect((await auth(loginCredential(wallet, challenge, { vc: { ...vc, ...changes } }))).status).toBe(200)
  })

  it('takes a key id in the header, and a reason in the claim', async () => {
    const claim = { claimType: 'challenge', claimValue: await challengeOf(), reason: 'login', essential: true }
    const { vc } = loginPayload(wallet.did, '')
    const payload = { iss: wallet.did, vc: { ...vc, credentialSubject: { claims: [claim] } } }
    const header = { alg: 'ES256K', typ: 'JWT', kid: `${wallet.did}#controller` }
    expect((await auth(jwtByHand(header, payload, es256kBy(wallet.privateKey)))).status).toBe(200)
  })

  it('logs the issuer in, in the spelling that it has, no matter which other DID is named', async () => {
    const upper = wallet.did.replace(/[a-f](?=[0-9a-f]*$)/g, (letter) => letter.toUpperCase())
    const answer = await auth(loginCredential({ ...wallet, did: upper }, await challengeOf(), { sub: wallet.did }))
    expect(userOf(answer)).toBe(upper)
    await expectRefusal(loginCredential(wallet, await challengeOf(), { sub: stranger.did }), 'Invalid credential')
    const { vc } = loginPayload(wallet.did, await challengeOf())
    const subject = { ...(vc as { credentialSubject: object }).credentialSubject, id: stranger.did }
    const jwt = loginCredential(wallet, '', { vc: { ...vc, credentialSubject: subject } })
    await expectRefusal(jwt, 'Invalid credential')
  })

  describe.each([
    ['with a network', wallet.did],
    ['without a network', wallet.did.replace('rsk:', '')],
    ['of a public key', `did:ethr:rsk:${SigningKey.computePublicKey(wallet.privateKey, true)}`]
  ])('from a did:ethr %s, to a credential about the service', (_name, did) => {
    // What published clients send: DAF 6 and rif-id-core name the service in credentialSubject.id, from which their
    // library makes `sub`. It was once refused, because the subject was not the user.
    const payloadOf = async (subject: string): Promise<Record<string, unknown>> => {
      const { vc } = loginPayload(did, await challengeOf(did))
      return { iss: did, sub: subject, vc }
    }
    const sign = es256kBy(wallet.privateKey)

    it('as did-jwt-vc makes it, with neither nbf nor aud, answers a token for the issuer', async () => {
      const w3c = {
        '@context': ['https://www.w3.org/2018/credentials/v1'],
        type: ['VerifiableCredential'],
        issuer: did,
        credentialSubject: {
          id: serviceWallet.did,
          claims: [{ claimType: 'challenge', claimValue: await challengeOf(did) }]
        }
      }
      const signer = ES256KSigner(hexToBytes(wallet.privateKey), true)
      const jwt = await createVerifiableCredentialJwt(w3c as never, { did, signer, alg: 'ES256K-R' })
      expect(parseJwt(jwt, 16_384)?.payload).toMatchObject({ iss: did, sub: serviceWallet.did })
      expect(parseJwt(jwt, 16_384)?.payload).not.toHaveProperty('nbf')
      const answer = await auth(jwt)
      expect(answer.status).toBe(200)
      expect(userOf(answer)).toBe(did)
    })

    it('is refused when another key signed it', async () => {
      const payload = await payloadOf(serviceWallet.did)
      const jwt = jwtByHand({ alg: 'ES256K' }, payload, es256kBy(serviceWallet.privateKey))
      await expectRefusal(jwt, 'Invalid credential')
    })

    it('may name the service in both places and in another letter case', async () => {
      const payload = await payloadOf(`did:ethr:rsk:${serviceWallet.address}`)
      const vc = payload.vc as { credentialSubject: object }
      const both = { ...vc, credentialSubject: { ...vc.credentialSubject, id: serviceWallet.did } }
      expect((await auth(jwtByHand({ alg: 'ES256K' }, { ...payload, vc: both }, sign))).status).toBe(200)
    })

    it('is refused when the subject is anybody else, or the address of the service on another network', async () => {
      for (const subject of [stranger.did, serviceWallet.did.replace('rsk', 'rsk:testnet'), serviceUrl, '']) {
        await expectRefusal(jwtByHand({ alg: 'ES256K' }, await payloadOf(subject), sign), 'Invalid credential')
      }
    })
  })

  it.each([undefined, null, ['a.b.c']])('answers 400 when jwt is %j', async (jwt) => {
    const { status, text } = await auth(jwt)
    expect([status, text]).toEqual([400, 'Invalid request'])
  })

  it.each(['', 'a.b.c', 'a'.repeat(17_000)])('answers 401 to what is no credential: %#', (jwt) =>
    expectRefusal(jwt, 'Invalid credential')
  )
})

describe('a login credential', () => {
  const vcWith = async (changes: object) => {
    const challenge = await challengeOf()
    return loginCredential(wallet, challenge, { vc: { ...loginPayload(wallet.did, challenge).vc, ...changes } })
  }
  const subjectWith = (claims: unknown) => vcWith({ credentialSubject: { claims } })
  const claim = (claimValue: unknown) => ({ claimType: 'challenge', claimValue })

  it.each([
    ['without a context', { '@context': undefined }],
    ['with another context', { '@context': ['https://www.w3.org/ns/credentials/v2'] }],
    ['with a context that is no array', { '@context': 'https://www.w3.org/2018/credentials/v1' }],
    ['without a type', { type: undefined }],
    ['of another type', { type: ['VerifiablePresentation'] }],
    ['without a subject', { credentialSubject: undefined }],
    ['with another issuer inside', { issuer: stranger.did }],
    ['that is not valid yet', { issuanceDate: '2027-01-15T08:01:01Z' }]
  ])('%s is refused', async (_name, changes) => {
    await expectRefusal(await vcWith(changes), 'Invalid credential')
  })

  it('with no claim, two claims or another claim is refused', async () => {
    const challenge = await challengeOf()
    for (const claims of [
      undefined,
      null,
      {},
      [],
      [claim(challenge), claim(challenge)],
      [claim(challenge), { claimType: 'email', claimValue: 'a@b.c' }],
      [{ claimType: 'nonce', claimValue: challenge }],
      [{ claimType: 'challenge' }],
      [claim(7)],
      [claim([challenge])],
      [challenge],
      [null],
      claim(challenge)
    ]) {
      await expectRefusal(await subjectWith(claims), 'Invalid credential')
    }
  })

  it('for another audience is refused', async () => {
    for (const aud of ['https://other.example', ['https://other.example'], [], null, `${serviceUrl}/`]) {
      await expectRefusal(loginCredential(wallet, await challengeOf(), { aud }), 'Invalid credential')
    }
    expect((await auth(loginCredential(wallet, await challengeOf(), { aud: serviceUrl }))).status).toBe(200)
  })

  it('that has ended, or has not begun, is refused', async () => {
    await expectRefusal(loginCredential(wallet, await challengeOf(), { exp: START_SECONDS }), 'Expired credential')
    for (const changes of [{ nbf: START_SECONDS + 61 }, { iat: START_SECONDS + 61 }, { exp: '1900000000' }]) {
      await expectRefusal(loginCredential(wallet, await challengeOf(), changes), 'Invalid credential')
    }
    const inForce = { nbf: START_SECONDS + 60, exp: START_SECONDS + 1 }
    expect((await auth(loginCredential(wallet, await challengeOf(), inForce))).status).toBe(200)
  })

  it('may begin 60 s ahead, as the clock of a phone may be; that does not make its end later', async () => {
    expect((await auth(loginCredential(wallet, await challengeOf(), { iat: START_SECONDS + 60 }))).status).toBe(200)
    expect((await auth(await vcWith({ issuanceDate: '2027-01-15T08:01:00Z' }))).status).toBe(200)
    expect((await auth(await vcWith({ expirationDate: '2027-01-15T08:00:01Z' }))).status).toBe(200)
    await expectRefusal(await vcWith({ expirationDate: '2027-01-15T08:00:00Z' }), 'Expired credential')
  })

  it.each([
    [60, 200],
    [61, 401]
  ])('made by did-jwt and did-jwt-vc with a clock that is %i s ahead is answered %i', async (seconds, status) => {
    // The relay reads the clock of the test; the libraries know only the machine's.
    const now = jest.spyOn(Date, 'now').mockReturnValue((START_SECONDS + seconds) * 1_000)
    const signer = ES256KSigner(hexToBytes(wallet.privateKey))
    const payloads = [loginPayload(wallet.did, await challengeOf()), loginPayload(wallet.did, await challengeOf())]
    try {
      const [bare, dated] = payloads.map(({ vc }) => vc) as [object, object]
      const w3c = { ...dated, issuer: wallet.did, issuanceDate: new Date(Date.now()).toISOString() }
      const jwts = [
        await createJWT({ vc: bare }, { issuer: wallet.did, signer }),
        await createVerifiableCredentialJwt(w3c as never, { did: wallet.did, signer })
      ]
      expect(jwts.map((jwt) => parseJwt(jwt, 16_384)?.payload)).toMatchObject([
        { iat: START_SECONDS + seconds },
        { nbf: START_SECONDS + seconds }
      ])
      for (const jwt of jwts) expect((await auth(jwt)).status).toBe(status)
    } finally {
      now.mockRestore()
    }
  })

  it('by another key is refused, and leaves the challenge good', async () => {
    const challenge = await challengeOf()
    await expectRefusal(loginCredential({ ...stranger, did: wallet.did }, challenge), 'Invalid credential')
    await expectRefusal(
      loginCredential({ ...stranger, did: wallet.did }, challenge, {}, 'ES256K-R'),
      'Invalid credential'
    )
    expect((await auth(loginCredential(wallet, challenge))).status).toBe(200)
  })

  it('of another algorithm, or none, is refused', async () => {
    const payload = loginPayload(wallet.did, await challengeOf())
    for (const [alg, sign] of [
      ['ES256', p256Key().sign],
      ['EdDSA', ed25519Key().sign],
      ['none', () => Buffer.from([0])],
      ['HS256', () => Buffer.alloc(32)],
      ['es256k', es256kBy(wallet.privateKey)],
      // 64 bytes where there should be 65.
      ['ES256K-R', es256kBy(wallet.privateKey)]
    ] as const) {
      await expectRefusal(jwtByHand({ alg, typ: 'JWT' }, payload, sign), 'Invalid credential')
    }
  })

  it('of a DID whose key cannot be told without a network, or that has none, is refused', async () => {
    for (const did of ['did:web:example.org', 'did:key:z6Mk', `did:ethr:0x02${'f'.repeat(64)}`]) {
      const jwt = loginCredential({ ...wallet, did }, await challengeOf(did))
      await expectRefusal(jwt, 'Unsupported DID')
    }
  })
})

describe('a challenge', () => {
  it('is good for 300 s at least, and no longer than 310 s', async () => {
    const first = await challengeOf()
    relay.clock.seconds += 300
    expect((await auth(loginCredential(wallet, first))).status).toBe(200)
    relay.clock.seconds += 9
    const second = await challengeOf()
    relay.clock.seconds += 300
    expect((await auth(loginCredential(wallet, second))).status).toBe(200)
    const third = await challengeOf()
    relay.clock.seconds += 310
    await expectRefusal(loginCredential(wallet, third), 'Invalid challenge response: expired')
  })

  it('of another DID, of no one, or misspelled is refused', async () => {
    const challenge = await challengeOf()
    for (const wrong of [
      await challengeOf(stranger.did),
      challenge.toUpperCase(),
      `${challenge}00`,
      challenge.slice(2),
      `0x${challenge.slice(2)}`,
      `${challenge.slice(0, 127)}${challenge.endsWith('0') ? '1' : '0'}`,
      `${challenge.startsWith('0') ? '1' : '0'}${challenge.slice(1)}`,
      '0'.repeat(128),
      ''
    ]) {
      await expectRefusal(loginCredential(wallet, wrong), 'Invalid challenge response')
    }
    expect((await auth(loginCredential(wallet, challenge))).status).toBe(200)
  })

  it('of a DID is good for its other spellings', async () => {
    const upper = wallet.did.replace('did:ethr:rsk', 'did:ethr:RSK')
    expect((await auth(loginCredential({ ...wallet, did: upper }, await challengeOf()))).status).toBe(200)
  })

  it('of the auth server, or of a relay with another secret, is refused', async () => {
    const other = await startTestRelay(
      {},
      { clock: relay.clock, challengeSecret: 'another secret of 32 bytes or more' }
    )
    const challenge = await requestChallenge(other, wallet.did)
    await other.end()
    await expectRefusal(loginCredential(wallet, challenge), 'Invalid challenge response')
  })

  it('is good once, also for another credential', async () => {
    const challenge = await challengeOf()
    const jwt = loginCredential(wallet, challenge)
    expect((await auth(jwt)).status).toBe(200)
    await expectRefusal(jwt, 'Invalid challenge response: used')
    await expectRefusal(loginCredential(wallet, challenge, { jti: 'another' }), 'Invalid challenge response: used')
    relay.clock.seconds += 305
    await expectRefusal(jwt, 'Invalid challenge response: used')
    relay.clock.seconds += 5
    await expectRefusal(jwt, 'Invalid challenge response: expired')
  })

  it('gives one token to 50 copies of one credential at once', async () => {
    const jwt = loginCredential(wallet, await challengeOf())
    const answers = await Promise.all(Array.from({ length: 50 }, () => auth(jwt)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(49).fill(401)])
    expect(new Set(answers.filter(({ status }) => status === 401).map(({ text }) => text))).toEqual(
      new Set(['Invalid challenge response: used'])
    )
  })

  it('is answered with 503 when no further use can be remembered, or the store is unavailable', async () => {
    const lostStore = Object.assign(memoryStore(), { consumeChallenge: () => Promise.reject(new Error('gone')) })
    for (const [store, text] of [
      [memoryStore({ maxChallengeUses: 0 }), 'Busy, try again'],
      [lostStore, 'Store unavailable, try again']
    ] as const) {
      const other = await startTestRelay({}, { store })
      const jwt = loginCredential(wallet, await requestChallenge(other, wallet.did))
      const answer = await request(other.listener).post('/auth').send({ jwt })
      expect([answer.status, answer.text]).toEqual([503, text])
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
      await other.end()
    }
  })
})
