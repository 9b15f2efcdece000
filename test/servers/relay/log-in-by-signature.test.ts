import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals'
import { SigningKey } from 'ethers'
import { loadCurve } from 'express-did-auth'
import request from 'supertest'
import { RelayAuth } from '../../../servers/relay/relay-auth.js'
import {
  getFile,
  loginCredential,
  postFile,
  requestChallenge,
  serviceUrl,
  serviceWallet,
  startTestRelay,
  TestClock,
  type TestRelay
} from '../../support/relay-app.js'
import { loginText, walletOf } from '../../support/wallet.js'

const wallet = walletOf(1)
const stranger = walletOf(2)

let relay: TestRelay

beforeAll(async () => {
  relay = await startTestRelay()
})

afterAll(() => relay.end())

const auth = (body: unknown) =>
  request(relay.listener)
    .post('/auth')
    .send(body as object)
const challengeOf = (did = wallet.did) => requestChallenge(relay, did)
const sign = (challenge: string, domain = 'relay.example', by = wallet) => by.personalSign(loginText(domain, challenge))

async function expectRefusal(body: unknown, text: string): Promise<void> {
  const answer = await auth(body)
  expect([answer.status, answer.text]).toEqual([401, text])
  expect(answer.headers['www-authenticate']).toBe(`DIDAuth realm="${serviceUrl}"`)
}

function userOf({ body }: { body: { token: string } }): string {
  return JSON.parse(Buffer.from(body.token.split('.')[1]!, 'base64url').toString()).sub
}

describe('POST /auth with a signature', () => {
  it('answers the token of a credential login, good for posting and reading', async () => {
    const challenge = await challengeOf()
    const answer = await auth({ did: wallet.did, sig: sign(challenge), challenge })
    expect([answer.status, Object.keys(answer.body), userOf(answer)]).toEqual([200, ['token'], wallet.did])
    expect(answer.headers['cache-control']).toBe('no-store')
    const { token } = answer.body
    const posted = await postFile(relay, token, 'Hello')
    expect((await getFile(relay, token, posted.body.cid)).body).toEqual({ file: 'Hello' })
  })

  it.each(['relay.example', 'https://relay.example', 'app.example'])('takes the domain %s', async (domain) => {
    const other = await startTestRelay({ LOGIN_DOMAINS: 'app.example' })
    const challenge = await requestChallenge(other, wallet.did)
    const body = { did: wallet.did, sig: sign(challenge, domain), challenge }
    expect((await request(other.listener).post('/auth').send(body)).status).toBe(200)
    await other.end()
  })

  it('refuses every other domain, also one that the request names', async () => {
    for (const domain of ['evil.example', 'relay.example:443', 'RELAY.example', 'relay.example/', '']) {
      const challenge = await challengeOf()
      const body = { did: wallet.did, sig: sign(challenge, domain), challenge }
      const answer = await auth(body).set('Host', 'evil.example').set('Origin', 'https://evil.example')
      expect([answer.status, answer.text]).toEqual([401, 'Invalid challenge response'])
    }
  })

  it('takes the first line of older clients where LOGIN_DIALECTS has url', async () => {
    const other = await startTestRelay({ LOGIN_DIALECTS: 'login,url' })
    for (const first of ['Login to relay.example', 'URL: https://relay.example']) {
      const challenge = await requestChallenge(other, wallet.did)
      const sig = wallet.personalSign(`${first}\nVerification code: ${challenge}`)
      const answer = await request(other.listener).post('/auth').send({ did: wallet.did, sig, challenge })
      expect([first, answer.status]).toEqual([first, 200])
    }
    await other.end()
    const challenge = await challengeOf()
    const sig = wallet.personalSign(`URL: https://relay.example\nVerification code: ${challenge}`)
    await expectRefusal({ did: wallet.did, sig, challenge }, 'Invalid challenge response')
  })

  it('refuses DIDs of other networks than NETWORKS, at the challenge and in both kinds of login', async () => {
    const other = await startTestRelay({ NETWORKS: 'rsk,ethereum' })
    const address = wallet.address.toLowerCase()
    const did = `did:ethr:sepolia:${address}`
    const foreign = await challengeOf(did)
    for (const [path, body] of [
      ['/request-auth', { did }],
      ['/auth', { did, sig: sign(foreign), challenge: foreign }],
      ['/auth', { jwt: loginCredential({ ...wallet, did }, foreign) }]
    ] as const) {
      const answer = await request(other.listener).post(path).send(body)
      expect([path, answer.status, answer.text]).toEqual([path, 401, 'Unsupported DID'])
    }
    for (const good of [`did:ethr:${address}`, `did:ethr:RSK:${address}`]) {
      const challenge = await requestChallenge(other, good)
      const answer = await request(other.listener)
        .post('/auth')
        .send({ did: good, sig: sign(challenge), challenge })
      expect([good, answer.status]).toEqual([good, 200])
    }
    await other.end()
  })

  it('does not start with more than six domains', async () => {
    await expect(startTestRelay({ LOGIN_DOMAINS: 'a,b,c,d,e' })).rejects.toThrow(
      'LOGIN_DOMAINS: received ["relay.example","https://relay.example","a","b","c","d","e"]; give at most 6'
    )
  })

  it.each([
    ['without a network', wallet.did.replace('rsk:', '')],
    ['in other letters', `did:ethr:rsk:${wallet.address}`],
    ['of a public key', `did:ethr:rsk:${SigningKey.computePublicKey(wallet.privateKey, true)}`]
  ])('takes a DID %s, and answers for it as received', async (_name, did) => {
    const challenge = await challengeOf(did)
    expect(userOf(await auth({ did, sig: sign(challenge), challenge }))).toBe(did)
  })

  it('refuses the signature of anybody else, of another message, and over another challenge', async () => {
    const challenge = await challengeOf()
    const other = await challengeOf()
    for (const sig of [
      sign(challenge, 'relay.example', stranger),
      wallet.personalSign(challenge),
      wallet.personalSign(`${loginText('relay.example', challenge)}\n`),
      wallet.personalSign(`${loginText('relay.example', challenge)}\nMy credentials are: `),
      sign(other)
    ]) {
      await expectRefusal({ did: wallet.did, sig, challenge }, 'Invalid challenge response')
    }
    expect((await auth({ did: wallet.did, sig: sign(challenge), challenge })).status).toBe(200)
  })

  it('refuses a challenge of another DID, and one that is not ours', async () => {
    for (const challenge of [await challengeOf(stranger.did), '0'.repeat(128), 'a', '']) {
      await expectRefusal({ did: wallet.did, sig: sign(challenge), challenge }, 'Invalid challenge response')
    }
  })

  it('is good once, whether by signature or by credential', async () => {
    const challenge = await challengeOf()
    const body = { did: wallet.did, sig: sign(challenge), challenge }
    expect((await auth(body)).status).toBe(200)
    await expectRefusal(body, 'Invalid challenge response: used')
    await expectRefusal({ jwt: loginCredential(wallet, challenge) }, 'Invalid challenge response: used')
    const second = await challengeOf()
    expect((await auth({ jwt: loginCredential(wallet, second) })).status).toBe(200)
    await expectRefusal({ did: wallet.did, sig: sign(second), challenge: second }, 'Invalid challenge response: used')
  })

  it('refuses an expired challenge with the text on which clients ask again', async () => {
    const challenge = await challengeOf()
    relay.clock.seconds += 310
    const text = 'Invalid challenge response: expired'
    await expectRefusal({ did: wallet.did, sig: sign(challenge), challenge }, text)
    await expectRefusal({ did: wallet.did, sig: sign(challenge) }, text)
  })
})

describe('POST /auth with a signature and no challenge', () => {
  it('takes the last challenge that was given to the DID, in any spelling', async () => {
    await challengeOf()
    const last = await challengeOf(`did:ethr:rsk:${wallet.address}`)
    expect((await auth({ did: wallet.did, sig: sign(last) })).status).toBe(200)
  })

  it('refuses one before the last, which the same body with its challenge may still use', async () => {
    const first = await challengeOf()
    await challengeOf()
    const body = { did: wallet.did, sig: sign(first) }
    await expectRefusal(body, 'Invalid challenge response')
    expect((await auth({ ...body, challenge: first })).status).toBe(200)
  })

  it('refuses a DID that never asked', () =>
    expectRefusal({ did: walletOf(3).did, sig: sign('0'.repeat(128)) }, 'Invalid challenge response'))

  it('refuses after a restart, where the challenge itself is still good', async () => {
    const challenge = await challengeOf()
    await relay.restart()
    const body = { did: wallet.did, sig: sign(challenge) }
    await expectRefusal(body, 'Invalid challenge response')
    expect((await auth({ ...body, challenge })).status).toBe(200)
  })

  it('remembers the last 10,000 DIDs, and no DID that cannot log in', async () => {
    const { logIn, requestChallenge: ask } = relayAuth()
    const challenge = ask(wallet.did)
    for (let count = 0; count < 9_999; count += 1) ask(`did:ethr:0x${String(count).padStart(40, '0')}`)
    for (let count = 0; count < 1_000; count += 1) ask(`did:web:host${String(count)}.example`)
    await expect(logIn({ did: wallet.did, sig: sign(challenge) })).resolves.toMatch(/^ey/)
    const next = ask(wallet.did)
    for (let count = 0; count < 10_000; count += 1) ask(`did:ethr:0x${String(count).padStart(40, '0')}`)
    await expect(logIn({ did: wallet.did, sig: sign(next) })).rejects.toMatchObject({ code: 'ERR_CHALLENGE' })
  })
})

describe('a malformed login by signature', () => {
  const sig = `0x${'1'.repeat(130)}`

  it.each([
    { did: wallet.did, sig, jwt: 'a.b.c' },
    { did: wallet.did, sig, jwt: null },
    { did: wallet.did, sig, challenge: 7 },
    { did: wallet.did, sig, challenge: null },
    { did: wallet.did, sig, challenge: ['0'.repeat(128)] },
    { did: wallet.did, sig: 7 },
    { did: wallet.did, challenge: '0'.repeat(128) },
    { did: 'me', sig },
    { did: [wallet.did], sig },
    { sig },
    { response: { did: wallet.did, sig } },
    [wallet.did, sig]
  ])('is answered 400: %j', async (body) => {
    const { status, text } = await auth(body)
    expect([status, text]).toEqual([400, 'Invalid request'])
  })

  it.each(['', `0x${'f'.repeat(130)}`])('is answered 401 when the signature is %j', async (wrong) => {
    await expectRefusal({ did: wallet.did, sig: wrong, challenge: await challengeOf() }, 'Invalid signature')
  })

  it.each(['did:web:example.org', `did:ethr:0x02${'f'.repeat(64)}`])('of %s is refused', async (did) => {
    const challenge = await challengeOf(did)
    await expectRefusal({ did, sig: sign(challenge), challenge }, 'Unsupported DID')
  })

  it('logs neither signature nor challenge', async () => {
    const challenge = await challengeOf()
    await auth({ did: wallet.did, sig: sign(challenge, 'evil.example'), challenge })
    const log = JSON.stringify(relay.log())
    expect(log).not.toContain(challenge)
    expect(log).not.toContain(sign(challenge, 'evil.example').slice(2))
  })
})

/** The login without HTTP. */
function relayAuth(curve = loadCurve()) {
  const auth = new RelayAuth({
    serviceUrl,
    serviceDid: serviceWallet.did,
    loginDomains: ['relay.example'],
    loginDialects: ['login'],
    networks: undefined,
    challengeSecret: 'a secret of the tests, longer than 32 bytes',
    tokenSeconds: 600,
    maxRequests: Infinity,
    quotas: { charge: () => Promise.reject(new Error('not asked')) },
    key: curve.then((curve) => ({ curve, publicKey: new Uint8Array(65) })),
    signer: async () => '',
    store: { consumeChallenge: async () => 'consumed' },
    clock: new TestClock()
  })
  return { logIn: auth.logIn.bind(auth), requestChallenge: auth.requestChallenge.bind(auth) }
}

describe('RelayAuth', () => {
  it('computes nothing on the curve for a challenge that is not ours, or a signature that cannot be one', async () => {
    const curve = { ...(await loadCurve()) }
    const [recover, decompress] = [jest.spyOn(curve, 'recover'), jest.spyOn(curve, 'decompress')]
    const { logIn, requestChallenge: ask } = relayAuth(Promise.resolve(curve))
    const ofKey = `did:ethr:rsk:${SigningKey.computePublicKey(wallet.privateKey, true)}`
    const challenge = ask(wallet.did)
    for (const request of [
      { did: wallet.did, sig: sign('0'.repeat(128)), challenge: '0'.repeat(128) },
      { did: stranger.did, sig: sign(challenge), challenge },
      { did: ofKey, sig: sign(challenge), challenge },
      { did: stranger.did, sig: sign(challenge) },
      { did: wallet.did, sig: `0x${'f'.repeat(130)}`, challenge }
    ]) {
      await expect(logIn(request)).rejects.toThrow()
    }
    expect([recover.mock.calls.length, decompress.mock.calls.length]).toEqual([0, 0])
    await logIn({ did: wallet.did, sig: sign(challenge), challenge })
    expect(recover.mock.calls.length).toBe(1)
  })
})
