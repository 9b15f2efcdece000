import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import request, { type Response } from 'supertest'
import type { DidAuthConfig, SecurityEvent } from 'express-did-auth'
import { decodePayload } from '../flows/flow-parts.js'
import { requestLoginChallenge, type TestTokens } from '../support/servers/app-client.js'
import { startChain, type TestChain } from '../support/engines/chain.js'
import { signUp } from '../support/fixtures/credentials.js'
import { deadRpcUrl, startSwitchedNode } from '../support/faults/rpc-node.js'
import { createAccount, createSignedSiwe } from '../support/fixtures/siwe.js'
import { holdTime } from '../support/fixtures/hold-time.js'
import { resourceKey, testApp, type TestApp } from '../support/servers/test-app.js'
import { createLoginText, createNumberedWallet, type TestWallet } from '../support/fixtures/fixtures.js'

const nobody = '0x0000000000000000000000000000000000000000'
const other = createNumberedWallet(3100)
const GOOD = [200, '']
const REFUSED = [401, 'Invalid challenge response']
const AWAY = [503, 'DID resolver unavailable, try again']
const UNSUPPORTED = [401, 'Unsupported DID']
const ENDED = [401, 'Invalid refresh token']

let chain: TestChain

beforeAll(async () => {
  chain = await startChain()
})

beforeEach(() => void holdTime())

afterAll(() => chain.stop())

async function documentApp(config: Partial<DidAuthConfig> = {}): Promise<TestApp> {
  const { rpcUrl, registry } = chain
  return testApp({ rpcUrl, registry, didControl: 'document', siwe: true, ...config })
}

/** Returns the response of `/auth` to the DID of one wallet with the signature of another. */
async function logIn({ app }: TestApp, signer: TestWallet, did = signer.did): Promise<Response> {
  const sig = signer.personalSign(createLoginText('service.example', await requestLoginChallenge(app, did)))
  return request(app).post('/auth').send({ did, sig })
}

function refresh({ app }: TestApp, { refreshToken }: TestTokens): Promise<Response> {
  return request(app).post('/refresh-token').send({ refreshToken }).then()
}

const readAnswer = ({ status, text }: Response): unknown => [status, status === 200 ? '' : text]

describe("POST /auth with didControl: 'document'", () => {
  it('accepts the key of the address while it is the owner, and adds it as the claim ctl', async () => {
    const user = createNumberedWallet(3001)
    const answer = await logIn(await documentApp(), user)
    expect(readAnswer(answer)).toEqual(GOOD)
    const { accessToken } = answer.body as TestTokens
    expect(decodePayload(accessToken)).toMatchObject({ sub: user.did, ctl: user.address.toLowerCase() })
    expect(readAnswer(await logIn(await documentApp(), other, user.did))).toEqual(REFUSED)
  })

  it('does not reveal the signer to other services: a resource token has no claim ctl', async () => {
    const resources = ['https://orders.example']
    const app = await documentApp({ resources, resourceKeys: [resourceKey(1)] })
    const { accessToken } = (await logIn(app, createNumberedWallet(3001))).body as TestTokens
    const { body } = await app.post('/resource-token', { resource: resources[0] }, accessToken).expect(200)
    expect(Object.keys(decodePayload((body as TestTokens).accessToken))).not.toContain('ctl')
  })

  it('accepts only the new owner after changeOwner; business logic and req.auth get the signer', async () => {
    const [user, owner] = [createNumberedWallet(3002), createNumberedWallet(3003)]
    await chain.changeOwner(user.address, owner.address)
    const seen: string[] = []
    const app = await documentApp({ authenticationBusinessLogic: (_did, { address }) => void seen.push(address) })
    expect(readAnswer(await logIn(app, user))).toEqual(REFUSED)
    const answer = await logIn(app, owner, user.did)
    expect(readAnswer(answer)).toEqual(GOOD)
    const { accessToken } = answer.body as TestTokens
    const { body } = await request(app.app).get('/me').set('Authorization', `DIDAuth ${accessToken}`).expect(200)
    const [address, ...more] = seen
    expect([body.user.did, body.auth.address, address, more]).toEqual([
      user.did,
      owner.address.toLowerCase(),
      owner.address.toLowerCase(),
      []
    ])
  })

  it.each([
    ['sigAuth', 3011, 86_400, GOOD],
    // Allowed for issuers: it is only listed under assertionMethod.
    ['veriKey', 3012, 86_400, REFUSED],
    // The delegate was added an hour ago for a minute.
    ['sigAuth', 3013, 60, REFUSED]
  ] as const)(
    'responds to a delegate of type %s of wallet %i for %i s with %p',
    async (type, number, seconds, expected) => {
      const user = createNumberedWallet(number)
      await chain.addDelegate(user.address, type, other.address, seconds)
      const app = await documentApp()
      expect(readAnswer(await logIn(app, other, user.did))).toEqual(expected)
      expect(readAnswer(await logIn(app, user))).toEqual(GOOD)
    }
  )

  it('refuses the first key of a deactivated DID', async () => {
    const user = createNumberedWallet(3004)
    await chain.changeOwner(user.address, nobody)
    const app = await documentApp()
    expect(readAnswer(await logIn(app, user))).toEqual(UNSUPPORTED)
  })

  it('refuses a DID of an unknown network', async () => {
    const { address, ...user } = createNumberedWallet(3005)
    expect(readAnswer(await logIn(await documentApp(), { address, ...user }, `did:ethr:${address}`))).toEqual(
      UNSUPPORTED
    )
  })

  it('applies to sign-up as well', async () => {
    const [user, owner] = [createNumberedWallet(3006), createNumberedWallet(3007)]
    await chain.changeOwner(user.address, owner.address)
    const { app } = await documentApp()
    expect(readAnswer(await signUp(app, user))).toEqual(REFUSED)
    expect(readAnswer(await signUp(app, owner, { did: user.did }))).toEqual(GOOD)
  })

  it('caches a document for 60 s', async () => {
    const [user, owner] = [createNumberedWallet(3008), createNumberedWallet(3009)]
    const app = await documentApp()
    expect(readAnswer(await logIn(app, user))).toEqual(GOOD)
    await chain.changeOwner(user.address, owner.address)
    app.clock.seconds += 59
    expect(readAnswer(await logIn(app, user))).toEqual(GOOD)
    app.clock.seconds += 1
    expect(readAnswer(await logIn(app, user))).toEqual(REFUSED)
  })
})

describe('POST /siwe/verify with didControl: document', () =>
  it('refuses an address that its DID no longer lists; its user logs in by /auth', async () => {
    const [user, owner] = [createNumberedWallet(3020), createNumberedWallet(3021)]
    const { app } = await documentApp()
    const verify = async (number: number): Promise<unknown> =>
      readAnswer(
        await request(app)
          .post('/siwe/verify')
          .send(await createSignedSiwe(app, createAccount(number)))
      )
    await chain.changeOwner(user.address, owner.address)
    expect([await verify(3020), await verify(3021)]).toEqual([REFUSED, GOOD])
  }))

describe('a node that is unavailable', () => {
  it("causes 503 with didControl: 'document', and the challenge stays valid", async () => {
    const node = await startSwitchedNode(chain.rpcUrl, (req) => req.socket.destroy())
    const app = await documentApp({ rpcUrl: node.rpcUrl })
    const user = createNumberedWallet(3030)
    const sig = user.personalSign(createLoginText('service.example', await requestLoginChallenge(app.app, user.did)))
    const send = async (): Promise<unknown> =>
      readAnswer(await request(app.app).post('/auth').send({ did: user.did, sig }))
    expect(await send()).toEqual(AWAY)
    node.comeBack()
    app.clock.seconds += 10
    expect(await send()).toEqual(GOOD)
    node.stop()
  })

  it('does not affect a login by address', async () => {
    const app = await documentApp({ rpcUrl: await deadRpcUrl(), didControl: 'address' })
    const answer = await logIn(app, createNumberedWallet(3031))
    expect(readAnswer(answer)).toEqual(GOOD)
    expect(decodePayload((answer.body as TestTokens).accessToken)).not.toHaveProperty('ctl')
    expect(readAnswer(await refresh(app, answer.body as TestTokens))).toEqual(GOOD)
  })
})

describe("POST /refresh-token with didControl: 'document'", () => {
  it('ends the session of a removed owner within the lifetime of an access token', async () => {
    const [user, owner] = [createNumberedWallet(3040), createNumberedWallet(3041)]
    const events: SecurityEvent[] = []
    const app = await documentApp({ onSecurityEvent: (event) => events.push(event) })
    const tokens = (await logIn(app, user)).body as TestTokens
    await chain.changeOwner(user.address, owner.address)
    app.clock.seconds += 600
    await request(app.app).get('/me').set('Authorization', `DIDAuth ${tokens.accessToken}`).expect(401)
    expect(readAnswer(await refresh(app, tokens))).toEqual(ENDED)
    const [session] = await app.requireDid.sessions.list(user.did)
    expect(session).toBeUndefined()
    expect(events.at(-1)).toEqual({
      type: 'control-lost',
      did: user.did,
      sessionId: decodePayload(tokens.accessToken).sid,
      address: user.address.toLowerCase(),
      code: 'ERR_REFRESH_TOKEN',
      atSeconds: app.clock.seconds
    })
  })

  it('continues for a delegate until the delegation expires, with the claims of its login', async () => {
    const user = createNumberedWallet(3042)
    await chain.addDelegate(user.address, 'sigAuth', other.address)
    const app = await documentApp({
      refreshBusinessLogic: (_did, { address }) => ({ tokenClaims: { asked: address } })
    })
    const first = (await logIn(app, other, user.did)).body as TestTokens
    const ctl = other.address.toLowerCase()
    const second = (await refresh(app, first)).body as TestTokens
    expect(decodePayload(second.accessToken)).toMatchObject({ sub: user.did, ctl, asked: ctl })
    await chain.revokeDelegate(user.address, 'sigAuth', other.address)
    app.clock.seconds += 60
    expect(readAnswer(await refresh(app, second))).toEqual(ENDED)
  })

  it('ends the session of a deactivated DID', async () => {
    const user = createNumberedWallet(3043)
    const app = await documentApp()
    const tokens = (await logIn(app, user)).body as TestTokens
    await chain.changeOwner(user.address, nobody)
    app.clock.seconds += 60
    expect(readAnswer(await refresh(app, tokens))).toEqual(ENDED)
    expect(await app.requireDid.sessions.list(user.did)).toEqual([])
  })
})
