import { afterEach, describe, expect, it } from '@jest/globals'
import { encodeBase58 } from 'ethers'
import type { DidAuthConfig } from 'express-did-auth'
import { testApp, type TestApp } from '../support/test-app.js'
import {
  credentialJwt,
  credentialPayload,
  ed25519Key,
  es256kBy,
  jwtByHand,
  p256Key,
  signUp,
  type SignPart
} from '../support/credentials.js'
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
const unproved = [401, 'Unproved credential issuer']
const outOfReach = [503, 'DID resolver unavailable, try again']

describe('POST /signup with the option resolver: an issuer', () => {
  it('did:web with a P-256 key signs with ES256', async () => {
    const key = p256Key()
    const app = await resolverApp((did) => documentOf(did, { type: 'JsonWebKey2020', publicKeyJwk: key.publicKeyJwk }))
    expect(await answerTo(app, credentialBy(web, 'ES256', key.sign))).toEqual(accepted)
    expect(await answerTo(app, credentialBy(web, 'ES256', p256Key().sign))).toEqual(refused)
  })

  it('did:key with an Ed25519 key signs with EdDSA', async () => {
    const key = ed25519Key()
    const bytes = Buffer.from(String(key.publicKeyJwk.x), 'base64url')
    // Multicodec ed25519-pub is 0xed, written as varint ed 01.
    const multibase = `z${encodeBase58(Buffer.concat([Buffer.from('ed01', 'hex'), bytes]))}`
    const did = `did:key:${multibase}`
    const method = { type: 'Ed25519VerificationKey2020', publicKeyMultibase: multibase }
    const app = await resolverApp((asked) => documentOf(asked, method))
    expect(await answerTo(app, credentialBy(did, 'EdDSA', key.sign))).toEqual(accepted)
    expect(await answerTo(app, credentialBy(did, 'EdDSA', ed25519Key().sign))).toEqual(refused)
  })

  it('with several keys signs with any of them, also after one of another kind', async () => {
    const first = { type: 'JsonWebKey2020', publicKeyJwk: ed25519Key().publicKeyJwk }
    const last = { type: 'EcdsaSecp256k1RecoveryMethod2020', ethereumAddress: issuer.address }
    const app = await resolverApp((did) => documentOf(did, first, last))
    expect(await answerTo(app, credentialBy(web, 'ES256K', es256kBy(issuer.privateKey)))).toEqual(accepted)
    expect(await answerTo(app, credentialBy(web, 'EdDSA', ed25519Key().sign))).toEqual(refused)
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

  it('whose document has no key for assertions is unproved', async () => {
    const app = await resolverApp(() => ({ didDocument: { id: web } }))
    expect(await answerTo(app, credentialBy(web, 'ES256K', es256kBy(issuer.privateKey)))).toEqual(unproved)
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
