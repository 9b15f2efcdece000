import { afterEach, describe, expect, it } from '@jest/globals'
import type { DidAuthConfig } from 'express-did-auth'
import { testApp, type TestApp } from '../support/test-app.js'
import { credentialJwt, credentialPayload, jwtByHand, p256Key, signUp, type SignPart } from '../support/credentials.js'
import { walletOf } from '../support/wallet.js'

const user = walletOf(1)
const issuer = walletOf(3001)
const web = 'did:web:issuer.example'

const apps: TestApp[] = []

afterEach(async () => {
  await Promise.all(apps.splice(0).map(({ requireDid }) => requireDid.close()))
})

async function resolverApp(resolve: (did: string) => unknown): Promise<TestApp> {
  const resolver = { resolve } as unknown as NonNullable<DidAuthConfig['resolver']>
  // Else no credential is looked at.
  const app = await testApp({ resolver, signupBusinessLogic: () => undefined })
  apps.push(app)
  return app
}

/** A resolution result with these methods, all of them for assertions. */
function documentOf(did: string, ...methods: Record<string, unknown>[]): object {
  const verificationMethod = methods.map((method, at) => ({ id: `${did}#${String(at)}`, controller: did, ...method }))
  const didDocument = { id: did, verificationMethod, assertionMethod: verificationMethod.map(({ id }) => id) }
  return { didResolutionMetadata: {}, didDocumentMetadata: {}, didDocument }
}

async function answerTo({ app }: TestApp, credential: string): Promise<[number, string]> {
  const response = await signUp(app, user, { credentials: [credential] })
  return [response.status, response.status === 200 ? '' : response.text]
}

function credentialBy(did: string, alg: string, sign: SignPart): string {
  return jwtByHand({ alg, typ: 'JWT' }, credentialPayload(did, user.did), sign)
}

const accepted = [200, '']
const refused = [401, 'Invalid credential']
const outOfReach = [503, 'DID resolver unavailable, try again']

describe('POST /signup with the option resolver: an issuer', () => {
  it('did:web with a P-256 key signs with ES256', async () => {
    const key = p256Key()
    const app = await resolverApp((did) => documentOf(did, { type: 'JsonWebKey2020', publicKeyJwk: key.publicKeyJwk }))
    expect(await answerTo(app, credentialBy(web, 'ES256', key.sign))).toEqual(accepted)
    expect(await answerTo(app, credentialBy(web, 'ES256', p256Key().sign))).toEqual(refused)
  })

  it('did:ethr is decided by its document, never by its address', async () => {
    const app = await resolverApp((did) => documentOf(did, { ethereumAddress: walletOf(3003).address }))
    expect(await answerTo(app, credentialJwt(issuer, user.did))).toEqual(refused)
  })

  it('did:ethr is asked for with its address in lower case', async () => {
    const asked: string[] = []
    const app = await resolverApp((did) => {
      asked.push(did)
      return documentOf(did, { ethereumAddress: issuer.address })
    })
    const { privateKey, address } = issuer
    for (const spelled of [address, `0x${address.slice(2).toUpperCase()}`, address.toLowerCase()]) {
      await answerTo(app, credentialJwt({ did: `did:ethr:Dev:${spelled}`, privateKey }, user.did))
    }
    expect(asked).toEqual([`did:ethr:Dev:${address.toLowerCase()}`])
  })
})

describe('POST /signup with a resolver that', () => {
  it('rejects is answered 503 with Retry-After, and its message stays in the log', async () => {
    const app = await resolverApp(() => Promise.reject(new Error('universe not found')))
    const response = await signUp(app.app, user, { credentials: [credentialJwt(issuer, user.did)] })
    expect([response.status, response.text, response.headers['retry-after']]).toEqual([...outOfReach, '10'])
    expect(JSON.stringify(app.log)).toContain('universe not found')
  })

  it.each([
    [
      'throws at once',
      () => {
        throw new TypeError('no such thing')
      }
    ],
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- that is the point
    ['rejects with what is no error', () => Promise.reject(undefined)]
  ])('%s is answered 503', async (_name, resolve) => {
    expect(await answerTo(await resolverApp(resolve), credentialJwt(issuer, user.did))).toEqual(outOfReach)
  })

  it('answers without a promise is taken at its word', async () => {
    const app = await resolverApp((did) => documentOf(did, { ethereumAddress: issuer.address }))
    expect(await answerTo(app, credentialJwt(issuer, user.did))).toEqual(accepted)
  })
})

describe('a challenge whose credentials could not be checked', () => {
  it('is not used up: the same signature is good once the resolver is back', async () => {
    let isAway = true
    const app = await resolverApp((did) =>
      isAway ? Promise.reject(new Error('away')) : documentOf(did, { ethereumAddress: issuer.address })
    )
    expect(await answerTo(app, credentialJwt(issuer, user.did))).toEqual(outOfReach)
    isAway = false
    app.clock.seconds += 10
    expect(await answerTo(app, credentialJwt(issuer, user.did))).toEqual(accepted)
  })
})
