import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import type { DidAuthConfig } from 'express-did-auth'
import { testApp, type TestApp } from '../support/servers/test-app.js'
import {
  answerToCredential,
  createCredentialJwt,
  createCredentialPayload,
  jwtByHand,
  p256Key,
  type SignPart,
  signUp
} from '../support/fixtures/credentials.js'
import net from 'node:net'
import { createThrowing } from '../support/fixtures/refusal.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const user = createNumberedWallet(1)
const issuer = createNumberedWallet(3001)
const web = 'did:web:issuer.example'

async function resolverApp(resolve: (did: string) => unknown): Promise<TestApp> {
  const resolver = { resolve } as unknown as NonNullable<DidAuthConfig['resolver']>
  // Credentials are verified only with business logic.
  return testApp({ resolver, signupBusinessLogic: () => undefined })
}

/** Returns a resolution result with these methods, all of them for assertions. */
function createDocument(did: string, ...methods: Record<string, unknown>[]): object {
  const verificationMethod = methods.map((method, at) => ({ id: `${did}#${String(at)}`, controller: did, ...method }))
  const didDocument = { id: did, verificationMethod, assertionMethod: verificationMethod.map(({ id }) => id) }
  return { didResolutionMetadata: {}, didDocumentMetadata: {}, didDocument }
}

const answerTo = (app: TestApp, credential: string) => answerToCredential(app, user, credential)

function credentialBy(did: string, alg: string, sign: SignPart): string {
  return jwtByHand({ alg, typ: 'JWT' }, createCredentialPayload(did, user.did), sign)
}

const accepted = [200, '']
const refused = [401, 'Invalid credential']
const unproved = [401, 'Unproved credential issuer']
const outOfReach = [503, 'DID resolver unavailable, try again']

describe('POST /signup with the option resolver: an issuer', () => {
  it('did:web with a P-256 key signs with ES256', async () => {
    const key = p256Key()
    const app = await resolverApp((did) =>
      createDocument(did, { type: 'JsonWebKey2020', publicKeyJwk: key.publicKeyJwk })
    )
    expect(await answerTo(app, credentialBy(web, 'ES256', key.sign))).toEqual(accepted)
    expect(await answerTo(app, credentialBy(web, 'ES256', p256Key().sign))).toEqual(refused)
  })

  it('did:ethr is proved by its document, never by its address', async () => {
    const app = await resolverApp((did) => createDocument(did, { ethereumAddress: createNumberedWallet(3003).address }))
    expect(await answerTo(app, createCredentialJwt(issuer, user.did))).toEqual(refused)
  })

  it('did:ethr is resolved with its address in lower case', async () => {
    const asked: string[] = []
    const app = await resolverApp((did) => {
      asked.push(did)
      return createDocument(did, { ethereumAddress: issuer.address })
    })
    const { privateKey, address } = issuer
    for (const spelled of [address, `0x${address.slice(2).toUpperCase()}`, address.toLowerCase()]) {
      await answerTo(app, createCredentialJwt({ did: `did:ethr:Dev:${spelled}`, privateKey }, user.did))
    }
    expect(asked).toEqual([`did:ethr:Dev:${address.toLowerCase()}`])
  })
})

describe('POST /signup with a faulty resolver', () => {
  it('responds 503 with Retry-After if it rejects, and keeps its message in the log', async () => {
    const app = await resolverApp(() => Promise.reject(new Error('universe not found')))
    const response = await signUp(app.app, user, { credentials: [createCredentialJwt(issuer, user.did)] })
    expect([response.status, response.text, response.headers['retry-after']]).toEqual([...outOfReach, '10'])
    expect(JSON.stringify(app.log)).toContain('universe not found')
  })

  it.each([
    ['throws synchronously', createThrowing(new TypeError('no such thing'))],
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- that is the point
    ['rejects without an error', () => Promise.reject(undefined)]
  ])('responds 503 if it %s', async (_name, resolve) => {
    expect(await answerTo(await resolverApp(resolve), createCredentialJwt(issuer, user.did))).toEqual(outOfReach)
  })

  it('accepts a value instead of a promise', async () => {
    const app = await resolverApp((did) => createDocument(did, { ethereumAddress: issuer.address }))
    expect(await answerTo(app, createCredentialJwt(issuer, user.did))).toEqual(accepted)
  })
})

describe('POST /signup without rpcUrl and resolver: an issuer', () => {
  const asked: unknown[] = []
  const answer = async (credential: string) =>
    answerTo(await testApp({ signupBusinessLogic: () => undefined }), credential)

  // supertest connects to the application by node:net; other outgoing requests would use fetch.
  beforeEach(() => {
    asked.length = 0
    jest.spyOn(globalThis, 'fetch').mockImplementation((url) => {
      asked.push(url)
      return Promise.reject(new Error('there is no network'))
    })
    const connect = net.Socket.prototype.connect
    jest.spyOn(net.Socket.prototype, 'connect').mockImplementation(function (this: net.Socket, ...args: unknown[]) {
      const [options] = args.flat() as [{ host?: string }]
      if (options.host !== '127.0.0.1') asked.push(options)
      return Reflect.apply(connect, this, args) as net.Socket
    })
  })

  afterEach(() => {
    jest.restoreAllMocks()
    expect(asked).toEqual([])
  })

  it.each(['did:ethr', 'did:ethr:rsk', 'did:ethr:rsk:testnet', 'did:ethr:sepolia', 'did:ethr:0x5afe'])(
    '%s is proved by its address, without a network',
    async (prefix) => {
      const { address, privateKey } = issuer
      for (const spelled of [address, address.toLowerCase(), `0x${address.slice(2).toUpperCase()}`]) {
        expect(await answer(createCredentialJwt({ did: `${prefix}:${spelled}`, privateKey }, user.did))).toEqual(
          accepted
        )
      }
    }
  )

  it('did:ethr is not proved by any other key', async () => {
    const { privateKey } = createNumberedWallet(5002)
    expect(await answer(createCredentialJwt({ did: issuer.did, privateKey }, user.did))).toEqual(refused)
  })

  it.each([
    'did:web:issuer.example',
    'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK',
    'did:ethr:rsk:0x1234'
  ])('%s is unproved: the default networks do not include it', async (did) => {
    expect(await answer(createCredentialJwt({ did, privateKey: issuer.privateKey }, user.did))).toEqual(unproved)
  })
})
