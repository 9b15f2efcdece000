import { afterAll, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { SigningKey } from 'ethers/crypto'
import { loadCurve, memoryStore } from 'express-did-auth'
import request from 'supertest'
import { readEnv } from '../../../servers/config/read-env.js'
import { createServerLog } from '../../../servers/observability/logger.js'
import { createRelayAuth } from '../../../servers/relay/relay-auth.js'
import { captureLog } from '../../support/fixtures/captured-log.js'
import {
  loginCredential,
  requestChallenge,
  serviceUrl,
  startTestRelay,
  userOfToken,
  type TestRelay
} from '../../support/servers/relay-app.js'
import {
  challengeSecret,
  createLoginText,
  createNumberedWallet,
  serviceWallet,
  START_SECONDS,
  TestClock
} from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
const stranger = createNumberedWallet(2)

let relay: TestRelay

beforeAll(async () => {
  relay = await startTestRelay({ LOGIN_DOMAINS: 'app.example', NETWORKS: 'rsk,ethereum' })
})
afterAll(() => relay.end())
beforeEach(() => {
  relay.clock.seconds = START_SECONDS
})

const ask = (path: string, body: unknown, at: Pick<TestRelay, 'listener'> = relay) =>
  request(at.listener)
    .post(path)
    .send(body as object)
const postAuth = (body: unknown, at?: TestRelay) => ask('/auth', body, at)
const getChallenge = (did = wallet.did) => requestChallenge(relay, did)
const sign = (challenge: string, domain = 'relay.example', by = wallet) =>
  by.personalSign(createLoginText(domain, challenge))

async function expectRefusal(body: unknown, text: string): Promise<void> {
  const answer = await postAuth(body)
  expect([answer.status, answer.text]).toEqual([401, text])
  expect(answer.headers['www-authenticate']).toBe(`DIDAuth realm="${serviceUrl}"`)
}

describe('POST /auth with a signature', () => {
  it.each([
    ['with a network', wallet.did],
    ['without a network', wallet.did.replace('rsk:', '')],
    ['in another letter case', `did:ethr:RSK:${wallet.address}`],
    ['of a public key', `did:ethr:rsk:${SigningKey.computePublicKey(wallet.privateKey, true)}`]
  ])('returns a token that names the DID as received: a DID %s', async (_name, did) => {
    const challenge = await getChallenge(did)
    const { status, body, headers } = await postAuth({ did, sig: sign(challenge), challenge })
    expect([status, Object.keys(body), userOfToken(body.token)]).toEqual([200, ['token'], did])
    expect(headers['cache-control']).toBe('no-store')
  })

  it('accepts the host of the service, its URL and LOGIN_DOMAINS, and no other domain', async () => {
    for (const [domain, status] of [
      ...['relay.example', 'https://relay.example', 'app.example'].map((domain) => [domain, 200] as const),
      ...['evil.example', 'relay.example:443', 'RELAY.example', ''].map((domain) => [domain, 401] as const)
    ]) {
      const challenge = await getChallenge()
      const login = postAuth({ did: wallet.did, sig: sign(challenge, domain), challenge })
      expect([domain, (await login.set('Host', 'evil.example')).status]).toEqual([domain, status])
    }
  })

  it('accepts the login text of older clients if LOGIN_DIALECTS contains url', async () => {
    const otherRelay = await startTestRelay({ LOGIN_DIALECTS: 'login,url' })
    const challenge = await requestChallenge(otherRelay, wallet.did)
    const sig = wallet.personalSign(`URL: https://relay.example\nVerification code: ${challenge}`)
    await expectRefusal({ did: wallet.did, sig, challenge }, 'Invalid challenge response')
    expect((await postAuth({ did: wallet.did, sig, challenge }, otherRelay)).status).toBe(200)
    await otherRelay.end()
  })

  it('refuses DIDs outside NETWORKS, for challenges and for both kinds of login', async () => {
    const did = `did:ethr:sepolia:${wallet.address.toLowerCase()}`
    const unrestrictedRelay = await startTestRelay()
    const foreignChallenge = await requestChallenge(unrestrictedRelay, did)
    await unrestrictedRelay.end()
    for (const [path, body] of [
      ['/request-auth', { did }],
      ['/auth', { did, sig: sign(foreignChallenge), challenge: foreignChallenge }],
      ['/auth', { jwt: loginCredential({ ...wallet, did }, foreignChallenge) }]
    ] as const) {
      const answer = await ask(path, body)
      expect([path, answer.status, answer.text]).toEqual([path, 401, 'Unsupported DID'])
    }
  })

  it('refuses to start with more than six domains', async () => {
    await expect(startTestRelay({ LOGIN_DOMAINS: 'a,b,c,d,e' })).rejects.toThrow(
      'LOGIN_DOMAINS: received ["relay.example","https://relay.example","a","b","c","d","e"]; give at most 6'
    )
  })

  it('refuses another signature or challenge, and keeps the challenge valid', async () => {
    const challenge = await getChallenge()
    const otherChallenge = await getChallenge()
    for (const [sig, sentChallenge] of [
      [sign(challenge, 'relay.example', stranger), challenge],
      [wallet.personalSign(challenge), challenge],
      [wallet.personalSign(`${createLoginText('relay.example', challenge)}\nMy credentials are: `), challenge],
      [sign(otherChallenge), challenge],
      ...[await getChallenge(stranger.did), '0'.repeat(128), ''].map((invalid) => [sign(invalid), invalid] as const)
    ] as const) {
      await expectRefusal({ did: wallet.did, sig, challenge: sentChallenge }, 'Invalid challenge response')
    }
    expect((await postAuth({ did: wallet.did, sig: sign(challenge), challenge })).status).toBe(200)
  })

  it('accepts a challenge once, by signature or by credential, and until it expires', async () => {
    const challenge = await getChallenge()
    const body = { did: wallet.did, sig: sign(challenge), challenge }
    expect((await postAuth(body)).status).toBe(200)
    await expectRefusal({ jwt: loginCredential(wallet, challenge) }, 'Invalid challenge response: used')
    const second = await getChallenge()
    expect((await postAuth({ jwt: loginCredential(wallet, second) })).status).toBe(200)
    await expectRefusal({ did: wallet.did, sig: sign(second), challenge: second }, 'Invalid challenge response: used')
    const third = await getChallenge()
    relay.clock.seconds += 310
    await expectRefusal({ did: wallet.did, sig: sign(third) }, 'Invalid challenge response: expired')
  })
})

describe('POST /auth with a signature and no challenge', () => {
  it('accepts the last challenge of the DID, in any spelling, and no earlier one', async () => {
    const first = await getChallenge()
    const last = await getChallenge(`did:ethr:rsk:${wallet.address}`)
    const body = { did: wallet.did, sig: sign(first) }
    await expectRefusal(body, 'Invalid challenge response')
    expect((await postAuth({ did: wallet.did, sig: sign(last) })).status).toBe(200)
    expect((await postAuth({ ...body, challenge: first })).status).toBe(200)
  })

  it('refuses a DID without a challenge, and after a restart, when the challenge itself is still valid', async () => {
    await expectRefusal({ did: createNumberedWallet(3).did, sig: sign('0'.repeat(128)) }, 'Invalid challenge response')
    const challenge = await getChallenge()
    await relay.restart()
    const body = { did: wallet.did, sig: sign(challenge) }
    await expectRefusal(body, 'Invalid challenge response')
    expect((await postAuth({ ...body, challenge })).status).toBe(200)
  })
})

describe('a malformed login by signature', () => {
  const sig = `0x${'1'.repeat(130)}`

  it.each([
    { did: wallet.did, sig, jwt: 'a.b.c' },
    { did: wallet.did, sig, challenge: null },
    { did: wallet.did, sig: 7 },
    { did: wallet.did, challenge: '0'.repeat(128) },
    { did: 'me', sig },
    { did: [wallet.did], sig },
    { response: { did: wallet.did, sig } },
    [wallet.did, sig]
  ])('is answered 400: %j', async (body) => {
    const { status, text } = await postAuth(body)
    expect([status, text]).toEqual([400, 'Invalid request'])
  })

  it('is answered 401 for an invalid signature or an unsupported DID, and logs neither', async () => {
    const challenge = await getChallenge()
    await expectRefusal({ did: wallet.did, sig: `0x${'f'.repeat(130)}`, challenge }, 'Invalid signature')
    await expectRefusal({ did: 'did:web:example.org', sig: sign(challenge), challenge }, 'Unsupported DID')
    expect(JSON.stringify(relay.log())).not.toMatch(new RegExp(`${challenge}|${sign(challenge).slice(2)}`))
  })
})

/** Creates the login of the relay without HTTP. */
function createAuth(curve = loadCurve()) {
  const env = readEnv({ DATA_DIR: '.' }, 'relay', false)
  const { destination } = captureLog()
  return createRelayAuth({
    env,
    identity: { serviceDid: serviceWallet.did, privateKey: serviceWallet.privateKey, challengeSecret },
    serviceUrl,
    log: createServerLog(env, false, destination),
    store: memoryStore(),
    key: curve.then((curve) => ({ curve, tokenCurve: curve, publicKey: new Uint8Array(65) })),
    signer: async () => '',
    clock: new TestClock()
  })
}

describe('createRelayAuth', () => {
  it('remembers the challenges of the last 10,000 DIDs that can log in', async () => {
    const { logIn, requestChallenge: ask } = createAuth()
    const challenge = ask(wallet.did)
    for (let count = 0; count < 9_999; count += 1) ask(`did:ethr:0x${String(count).padStart(40, '0')}`)
    for (let count = 0; count < 1_000; count += 1) ask(`did:web:host${String(count)}.example`)
    await expect(logIn({ did: wallet.did, sig: sign(challenge) })).resolves.toMatch(/^ey/)
    const next = ask(wallet.did)
    for (let count = 0; count < 10_000; count += 1) ask(`did:ethr:0x${String(count).padStart(40, '0')}`)
    await expect(logIn({ did: wallet.did, sig: sign(next) })).rejects.toMatchObject({ code: 'ERR_CHALLENGE' })
  })

  it('skips curve operations for a foreign challenge or an impossible signature', async () => {
    const curve = { ...(await loadCurve()) }
    const [recover, decompress] = [jest.spyOn(curve, 'recover'), jest.spyOn(curve, 'decompress')]
    const { logIn, requestChallenge: ask } = createAuth(Promise.resolve(curve))
    const publicKeyDid = `did:ethr:rsk:${SigningKey.computePublicKey(wallet.privateKey, true)}`
    const challenge = ask(wallet.did)
    for (const request of [
      { did: wallet.did, sig: sign('0'.repeat(128)), challenge: '0'.repeat(128) },
      { did: stranger.did, sig: sign(challenge), challenge },
      { did: publicKeyDid, sig: sign(challenge), challenge },
      { did: wallet.did, sig: `0x${'f'.repeat(130)}`, challenge }
    ]) {
      await expect(logIn(request)).rejects.toThrow()
    }
    expect([recover.mock.calls.length, decompress.mock.calls.length]).toEqual([0, 0])
    await logIn({ did: wallet.did, sig: sign(challenge), challenge })
    expect(recover.mock.calls.length).toBe(1)
  })
})
