import { describe, expect, it } from '@jest/globals'
import type { DIDResolutionResult } from 'did-resolver'
import request, { type Response } from 'supertest'
import { decodePayload } from './flow-parts.js'
import { requestLoginChallenge, type TestTokens } from '../support/servers/app-client.js'
import { createLoginText, createNumberedWallet, type TestWallet } from '../support/fixtures/fixtures.js'
import { testApp, type TestApp } from '../support/servers/test-app.js'

const [user, owner] = [createNumberedWallet(3001), createNumberedWallet(3002)]
const GOOD = [200, '']
const REFUSED = [401, 'Invalid challenge response']
const AWAY = [503, 'DID resolver unavailable, try again']
const ENDED = [401, 'Invalid refresh token']

/** Returns the resolution of the user's DID, whose document lists the addresses of the given wallets for logins. */
function createResolution(controllers: readonly TestWallet[], metadata = {}): DIDResolutionResult {
  const { did: id } = user
  const verificationMethod = controllers.map(({ address }, index) => ({
    id: `${id}#${index}`,
    type: 'EcdsaSecp256k1RecoveryMethod2020',
    controller: id,
    blockchainAccountId: `eip155:30:${address}`
  }))
  return {
    didResolutionMetadata: {},
    didDocument: { id, verificationMethod, authentication: verificationMethod.map((method) => method.id) },
    didDocumentMetadata: metadata
  }
}

/** Sets up an app with `didControl: 'document'`, whose resolver returns `state.resolution`. */
async function documentApp(resolution: DIDResolutionResult) {
  const state = { resolution }
  const resolver = { resolve: async () => state.resolution }
  return { state, test: await testApp({ didControl: 'document', resolver }) }
}

async function logIn({ app }: TestApp, signer: TestWallet): Promise<Response> {
  const sig = signer.personalSign(createLoginText('service.example', await requestLoginChallenge(app, user.did)))
  return request(app).post('/auth').send({ did: user.did, sig })
}

const readAnswer = ({ status, text }: Response): unknown => [status, status === 200 ? '' : text]

describe("didControl: 'document', with the documents of a resolver", () => {
  it('accepts an address that the document lists for logins, and adds it as the claim ctl', async () => {
    const { test } = await documentApp(createResolution([owner]))
    const answer = await logIn(test, owner)
    expect(readAnswer(answer)).toEqual(GOOD)
    const { accessToken } = answer.body as TestTokens
    expect(decodePayload(accessToken)).toMatchObject({ sub: user.did, ctl: owner.address.toLowerCase() })
  })

  it('refuses the address in the DID if the document does not list it', async () => {
    const { test } = await documentApp(createResolution([owner]))
    expect(readAnswer(await logIn(test, user))).toEqual(REFUSED)
  })

  it('refuses a method that the document does not list under authentication', async () => {
    const { didDocument, ...resolution } = createResolution([owner])
    const { test } = await documentApp({ ...resolution, didDocument: { ...didDocument!, authentication: [] } })
    expect((await logIn(test, owner)).status).toBe(401)
  })

  it('refuses a deactivated DID', async () => {
    const { test } = await documentApp(createResolution([user], { deactivated: true }))
    expect(readAnswer(await logIn(test, user))).toEqual([401, 'Unsupported DID'])
  })

  it('answers 503 while the resolver is unavailable, and the challenge stays valid', async () => {
    const away = { didResolutionMetadata: { error: 'internalError' }, didDocument: null, didDocumentMetadata: {} }
    const { state, test } = await documentApp(away)
    const sig = user.personalSign(createLoginText('service.example', await requestLoginChallenge(test.app, user.did)))
    const send = () => request(test.app).post('/auth').send({ did: user.did, sig })
    expect(readAnswer(await send())).toEqual([503, 'DID resolver unavailable, try again'])
    state.resolution = createResolution([user])
    test.clock.seconds += 61
    expect(readAnswer(await send())).toEqual(GOOD)
  })

  it('ends the session at the first refresh after the document removed the address', async () => {
    const { state, test } = await documentApp(createResolution([user, owner]))
    const { refreshToken } = (await logIn(test, owner)).body as TestTokens
    state.resolution = createResolution([user])
    test.clock.seconds += 61
    expect(readAnswer(await test.refresh(refreshToken))).toEqual([401, 'Invalid refresh token'])
  })
})

describe("POST /refresh-token with didControl: 'document'", () => {
  const method = { id: '#c', blockchainAccountId: `eip155:31:${user.address}` }
  const didDocument = { verificationMethod: [method], authentication: ['#c'] }
  const unresolved = (error: string) => ({ didResolutionMetadata: { error }, didDocument: null })

  /**
   * Returns the responses to refreshes while a resolver returns this result instead of the document, and afterwards.
   */
  async function refreshWith(answer: unknown): Promise<unknown[]> {
    let isChanged = false
    const resolve = async (): Promise<unknown> =>
      isChanged ? (answer ?? Promise.reject(new Error())) : { didDocument }
    const app = await testApp({ didControl: 'document', resolver: { resolve } })
    const tokens = (await logIn(app, user)).body as TestTokens
    const answers: unknown[] = []
    for (const [is, seconds] of [
      [true, 60],
      // The failure is cached.
      [true, 5],
      [false, 5]
    ] as const) {
      isChanged = is
      app.clock.seconds += seconds
      const { refreshToken } = tokens
      answers.push(readAnswer(await request(app.app).post('/refresh-token').send({ refreshToken })))
    }
    return answers
  }

  it.each<[string, unknown]>([
    ['no answer', undefined],
    ['an unknown network', unresolved('unknownNetwork')],
    ['an invalid DID', unresolved('invalidDid')],
    ['an unsupported method', unresolved('methodNotSupported')],
    ['a DID that was not found', unresolved('notFound')],
    ['more than 64 KiB', { didDocument: { ...didDocument, filler: 'x'.repeat(65_536) } }],
    ['101 methods', { didDocument: { ...didDocument, verificationMethod: Array(101).fill(method) } }],
    ['a key of more than 1 KiB', { didDocument: { authentication: [{ publicKeyHex: 'a'.repeat(1_025) }] } }]
  ])('responds 503 for %s, and the token stays valid', async (_name, answer) =>
    expect(await refreshWith(answer)).toEqual([AWAY, AWAY, GOOD])
  )

  it.each<[string, object]>([
    ['a document of another key', { didDocument: { authentication: [{ ethereumAddress: owner.address }] } }],
    ['a document without keys', { didDocument: { ...didDocument, authentication: [] } }],
    ['a deactivation', { didDocument, didDocumentMetadata: { deactivated: true } }],
    ['a deactivation without a document', { didDocument: null, didDocumentMetadata: { deactivated: true } }]
  ])('ends the session for %s', async (_name, answer) =>
    expect(await refreshWith(answer)).toEqual([ENDED, ENDED, ENDED])
  )
})
