import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { createJWT, ES256KSigner, hexToBytes } from 'did-jwt'
import { createVerifiableCredentialJwt } from 'did-jwt-vc'
import { memoryStore } from 'express-did-auth'
import { SigningKey } from 'ethers/crypto'
import { parseJwt } from 'express-did-auth/protocol'
import request from 'supertest'
import { ed25519Key, es256kBy, jwtByHand, p256Key } from '../../support/fixtures/credentials.js'
import {
  loginCredential,
  loginPayload,
  requestChallenge,
  serviceUrl,
  startTestRelay,
  userOfToken,
  type TestRelay
} from '../../support/servers/relay-app.js'
import { createNumberedWallet, serviceWallet, START_SECONDS } from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const stranger = createNumberedWallet(2)

let relay: TestRelay

beforeAll(async () => {
  relay = await startTestRelay()
})
afterAll(() => relay.end())
beforeEach(() => {
  relay.clock.seconds = START_SECONDS
})

const postAuth = (jwt: unknown, at: Pick<TestRelay, 'listener'> = relay) =>
  request(at.listener).post('/auth').send({ jwt })
const getChallenge = (did = wallet.did) => requestChallenge(relay, did)

async function expectRefusal(jwt: unknown, text = 'Invalid credential'): Promise<void> {
  const answer = await postAuth(jwt)
  expect([answer.status, answer.text]).toEqual([401, text])
  expect(answer.headers['www-authenticate']).toBe(`DIDAuth realm="${serviceUrl}"`)
}

const expectLogin = async (jwt: unknown): Promise<void> => {
  expect((await postAuth(jwt)).status).toBe(200)
}

describe('POST /auth with a credential', () => {
  it('returns a token for a credential that contains the challenge', async () => {
    const { status, body, headers } = await postAuth(loginCredential(wallet, await getChallenge()))
    expect([status, Object.keys(body)]).toEqual([200, ['token']])
    expect(headers['cache-control']).toBe('no-store')
    expect(userOfToken(body.token)).toBe(wallet.did)
  })

  it.each(['ES256K', 'ES256K-R'] as const)(
    'accepts %s credentials of published clients, issued by did-jwt-vc',
    async (alg) => {
      const signer = ES256KSigner(hexToBytes(wallet.privateKey), alg === 'ES256K-R')
      const times = { nbf: START_SECONDS - 10, exp: START_SECONDS + 10 }
      for (const extraClaims of [{}, { sub: wallet.did, aud: [serviceUrl], ...times }]) {
        const { vc } = loginPayload(wallet.did, await getChallenge())
        await expectLogin(
          await createVerifiableCredentialJwt({ ...extraClaims, vc } as never, { did: wallet.did, signer, alg })
        )
      }
    }
  )

  it('accepts further contexts, a key ID in the header, and a reason in the claim', async () => {
    const createClaim = { claimType: 'challenge', claimValue: await getChallenge(), reason: 'login', essential: true }
    const { vc } = loginPayload(wallet.did, '')
    const contexts = ['https://a.example', 'https://www.w3.org/2018/credentials/v1']
    const payload = {
      iss: wallet.did,
      vc: { ...vc, '@context': contexts, credentialSubject: { claims: [createClaim] } }
    }
    const header = { alg: 'ES256K', typ: 'JWT', kid: `${wallet.did}#controller` }
    await expectLogin(jwtByHand(header, payload, es256kBy(wallet.privateKey)))
  })

  it('logs in the issuer as the credential spells it, and refuses another subject', async () => {
    const upper = wallet.did.replace(/[a-f](?=[0-9a-f]*$)/g, (letter) => letter.toUpperCase())
    const { body } = await postAuth(
      loginCredential({ ...wallet, did: upper }, await getChallenge(), { sub: wallet.did })
    )
    expect(userOfToken(body.token)).toBe(upper)
    await expectRefusal(loginCredential(wallet, await getChallenge(), { sub: stranger.did }))
  })

  // Published clients send this: DAF 6 and rif-id-core name the service in credentialSubject.id, which their library
  // turns into `sub`. Cause: the relay refused a subject other than the user.
  it.each([
    ['with a network', wallet.did],
    ['without a network', wallet.did.replace('rsk:', '')],
    ['of a public key', `did:ethr:rsk:${SigningKey.computePublicKey(wallet.privateKey, true)}`]
  ])('accepts a credential about the service, as did-jwt-vc issues it for a did:ethr %s', async (_name, did) => {
    const { vc } = loginPayload(did, await getChallenge(did)) as { vc: { credentialSubject: object } }
    const createClaimsAbout = (id: string) => ({
      ...vc,
      credentialSubject: { ...vc.credentialSubject, id },
      issuer: did
    })
    const signer = ES256KSigner(hexToBytes(wallet.privateKey), true)
    const createCredential = (id: string) =>
      createVerifiableCredentialJwt(createClaimsAbout(id) as never, { did, signer, alg: 'ES256K-R' })
    for (const id of [stranger.did, serviceWallet.did.replace('rsk', 'rsk:testnet'), serviceUrl]) {
      await expectRefusal(await createCredential(id))
    }
    const jwt = await createCredential(`did:ethr:rsk:${serviceWallet.address}`)
    expect(parseJwt(jwt, 16_384)?.payload).toMatchObject({ iss: did, sub: `did:ethr:rsk:${serviceWallet.address}` })
    expect(userOfToken((await postAuth(jwt)).body.token)).toBe(did)
  })

  it.each([undefined, null, ['a.b.c']])('answers 400 when jwt is %j', async (jwt) => {
    const { status, text } = await postAuth(jwt)
    expect([status, text]).toEqual([400, 'Invalid request'])
  })
})

// See test/credentials for form, type, issuer and dates of credentials.
describe('a login credential', () => {
  const createCredentialWith = async (changes: object) => {
    const challenge = await getChallenge()
    return loginCredential(wallet, challenge, { vc: { ...loginPayload(wallet.did, challenge).vc, ...changes } })
  }

  it('is refused if malformed, without the context, or without exactly the challenge claim', async () => {
    const claim = (claimValue: unknown) => ({ claimType: 'challenge', claimValue })
    const validClaim = claim(await getChallenge())
    const wrongClaims = [
      ...[
        undefined,
        null,
        {},
        [],
        [null],
        validClaim,
        [validClaim.claimValue],
        [claim(7)],
        [{ claimType: 'challenge' }]
      ],
      ...[
        [validClaim, validClaim],
        [validClaim, { claimType: 'email', claimValue: 'a@b.c' }],
        [{ ...validClaim, claimType: 'nonce' }]
      ]
    ]
    const contexts = [undefined, ['https://www.w3.org/ns/credentials/v2'], 'https://www.w3.org/2018/credentials/v1']
    for (const jwt of [
      'a.b.c',
      'a'.repeat(17_000),
      ...(await Promise.all(wrongClaims.map((claims) => createCredentialWith({ credentialSubject: { claims } })))),
      ...(await Promise.all(contexts.map((context) => createCredentialWith({ '@context': context })))),
      await createCredentialWith({ type: ['VerifiablePresentation'] })
    ]) {
      await expectRefusal(jwt)
    }
  })

  it('is refused for another audience, also next to this relay', async () => {
    const other = 'https://other.example'
    for (const aud of [other, [other], [serviceUrl, other], [serviceUrl, null], [], null, `${serviceUrl}/path`]) {
      await expectRefusal(loginCredential(wallet, await getChallenge(), { aud }))
    }
    const spelling = `${serviceUrl.toUpperCase()}/`
    for (const aud of [serviceUrl, `${serviceUrl}/`, spelling, [serviceUrl, spelling]]) {
      await expectLogin(loginCredential(wallet, await getChallenge(), { aud }))
    }
  })

  it('may start 60 s in the future to tolerate clock skew, which does not delay its expiry', async () => {
    for (const changes of [{ iat: START_SECONDS + 60 }, { nbf: START_SECONDS + 60, exp: START_SECONDS + 1 }]) {
      await expectLogin(loginCredential(wallet, await getChallenge(), changes))
    }
    for (const changes of [{ nbf: START_SECONDS + 61 }, { iat: START_SECONDS + 61 }]) {
      await expectRefusal(loginCredential(wallet, await getChallenge(), changes))
    }
    await expectLogin(
      await createCredentialWith({ issuanceDate: '2027-01-15T08:01:00Z', expirationDate: '2027-01-15T08:00:01Z' })
    )
    await expectRefusal(await createCredentialWith({ issuanceDate: '2027-01-15T08:01:01Z' }))
    await expectRefusal(await createCredentialWith({ expirationDate: '2027-01-15T08:00:00Z' }), 'Expired credential')
    await expectRefusal(loginCredential(wallet, await getChallenge(), { exp: START_SECONDS }), 'Expired credential')
  })

  it.each([
    [60, 200],
    [61, 401]
  ])('issued by did-jwt with a clock that is %i s ahead is answered %i', async (seconds, status) => {
    const signer = ES256KSigner(hexToBytes(wallet.privateKey))
    const { vc } = loginPayload(wallet.did, await getChallenge())
    // The relay uses the clock of the test, and did-jwt that of the machine.
    const now = jest.spyOn(Date, 'now').mockReturnValue((START_SECONDS + seconds) * 1_000)
    const jwt = await createJWT({ vc }, { issuer: wallet.did, signer }).finally(() => now.mockRestore())
    expect(parseJwt(jwt, 16_384)?.payload).toMatchObject({ iat: START_SECONDS + seconds })
    expect((await postAuth(jwt)).status).toBe(status)
  })

  it('is refused if another key signed it, and the challenge stays valid', async () => {
    const challenge = await getChallenge()
    for (const alg of ['ES256K', 'ES256K-R'] as const) {
      await expectRefusal(loginCredential({ ...stranger, did: wallet.did }, challenge, {}, alg))
    }
    await expectLogin(loginCredential(wallet, challenge))
  })

  it('is refused with another algorithm or none', async () => {
    const payload = loginPayload(wallet.did, await getChallenge())
    for (const [alg, sign] of [
      ['ES256', p256Key().sign],
      ['EdDSA', ed25519Key().sign],
      ['none', () => Buffer.from([0])],
      ['HS256', () => Buffer.alloc(32)],
      ['es256k', es256kBy(wallet.privateKey)],
      // The signature has 64 bytes in place of 65.
      ['ES256K-R', es256kBy(wallet.privateKey)]
    ] as const) {
      await expectRefusal(jwtByHand({ alg, typ: 'JWT' }, payload, sign))
    }
  })

  it('is refused for a DID without a key, or if its key is unknown without a network', async () => {
    for (const did of ['did:web:example.org', 'did:key:z6Mk', `did:ethr:0x02${'f'.repeat(64)}`]) {
      await expectRefusal(loginCredential({ ...wallet, did }, await getChallenge(did)), 'Unsupported DID')
    }
  })
})

describe('a challenge', () => {
  it('is valid for at least 300 s, and at most 310 s', async () => {
    const first = await getChallenge()
    relay.clock.seconds += 300
    await expectLogin(loginCredential(wallet, first))
    relay.clock.seconds += 9
    const second = await getChallenge()
    relay.clock.seconds += 300
    await expectLogin(loginCredential(wallet, second))
    const third = await getChallenge()
    relay.clock.seconds += 310
    await expectRefusal(loginCredential(wallet, third), 'Invalid challenge response: expired')
  })

  it('is refused if misspelled or issued for another DID, and valid for any spelling of its DID', async () => {
    const challenge = await getChallenge(wallet.did.replace('rsk', 'RSK'))
    for (const invalidChallenge of [
      await getChallenge(stranger.did),
      challenge.toUpperCase(),
      `${challenge}00`,
      challenge.slice(2),
      `${challenge.slice(0, 127)}${challenge.endsWith('0') ? '1' : '0'}`,
      `${challenge.startsWith('0') ? '1' : '0'}${challenge.slice(1)}`,
      '0'.repeat(128),
      ''
    ]) {
      await expectRefusal(loginCredential(wallet, invalidChallenge), 'Invalid challenge response')
    }
    await expectLogin(loginCredential(wallet, challenge))
  })

  it('is valid once, also for another credential', async () => {
    const challenge = await getChallenge()
    const jwt = loginCredential(wallet, challenge)
    await expectLogin(jwt)
    await expectRefusal(loginCredential(wallet, challenge, { jti: 'another' }), 'Invalid challenge response: used')
    relay.clock.seconds += 305
    await expectRefusal(jwt, 'Invalid challenge response: used')
    relay.clock.seconds += 5
    await expectRefusal(jwt, 'Invalid challenge response: expired')
  })

  it('gives one token for 50 concurrent copies of one credential', async () => {
    const jwt = loginCredential(wallet, await getChallenge())
    const answers = await Promise.all(Array.from({ length: 50 }, () => postAuth(jwt)))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, ...Array<number>(49).fill(401)])
  })
})

describe('a challenge of another relay', () => {
  let otherRelay: TestRelay
  afterEach(() => otherRelay.end())

  it('is refused if that relay has another secret', async () => {
    otherRelay = await startTestRelay({}, { challengeSecret: 'another secret of 32 bytes or more' })
    const challenge = await requestChallenge(otherRelay, wallet.did)
    await expectRefusal(loginCredential(wallet, challenge), 'Invalid challenge response')
  })

  const lostStore = Object.assign(memoryStore(), { consumeChallenge: () => Promise.reject(new Error('gone')) })
  it.each([
    ['the store has no space for another use', memoryStore({ maxChallengeUses: 0 }), 'Busy, try again'],
    ['the store is unavailable', lostStore, 'Store unavailable, try again']
  ])('is answered 503 if %s', async (_what, store, text) => {
    otherRelay = await startTestRelay({}, { store })
    const answer = await postAuth(loginCredential(wallet, await requestChallenge(otherRelay, wallet.did)), otherRelay)
    expect([answer.status, answer.text]).toEqual([503, text])
    expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0)
  })
})
