import { afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import { encodeBase58 } from 'ethers'
import type { DidAuthConfig } from 'express-did-auth'
import { testApp, type TestApp } from '../support/test-app.js'
import {
  credentialJwt,
  credentialPayload,
  ed25519Key,
  es256kBy,
  es256kRecoverableBy,
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

  it.each([
    ['publicKeyJwk', { type: 'JsonWebKey2020', publicKeyJwk: ed25519Key().publicKeyJwk }],
    ['a JWK without its point', { type: 'JsonWebKey2020', publicKeyJwk: { kty: 'OKP', crv: 'Ed25519' } }],
    ['an address that is a number', { type: 'EcdsaSecp256k1RecoveryMethod2020', blockchainAccountId: 5 }],
    ['an account of another kind', { type: 'EcdsaSecp256k1RecoveryMethod2020', blockchainAccountId: 'bip122:a:b' }],
    ['hexadecimal that is none', { type: 'EcdsaSecp256k1VerificationKey2019', publicKeyHex: 'xyz' }]
  ])('with several keys signs with any of them, also after one of another kind: %s', async (_name, first) => {
    const last = { type: 'EcdsaSecp256k1RecoveryMethod2020', ethereumAddress: issuer.address }
    const app = await resolverApp((did) => documentOf(did, first, last))
    expect(await answerTo(app, credentialBy(web, 'ES256K', es256kBy(issuer.privateKey)))).toEqual(accepted)
    expect(await answerTo(app, credentialBy(web, 'EdDSA', ed25519Key().sign))).toEqual(refused)
  })

  it.each([
    ['CAIP-10', `eip155:30:${issuer.address}`],
    ['the older order', `${issuer.address}@eip155:30`]
  ])('may be an account in %s', async (_name, blockchainAccountId) => {
    const app = await resolverApp((did) => documentOf(did, { blockchainAccountId }))
    expect(await answerTo(app, credentialBy(web, 'ES256K', es256kBy(issuer.privateKey)))).toEqual(accepted)
    expect(await answerTo(app, credentialBy(web, 'ES256K-R', es256kRecoverableBy(issuer.privateKey)))).toEqual(accepted)
    expect(await answerTo(app, credentialBy(web, 'ES256K', es256kBy(walletOf(3002).privateKey)))).toEqual(refused)
  })

  it('may name its assertion key by fragment alone, or hold it there', async () => {
    const method = { type: 'EcdsaSecp256k1RecoveryMethod2020', ethereumAddress: issuer.address }
    const credential = credentialBy(web, 'ES256K', es256kBy(issuer.privateKey))
    const byFragment = { verificationMethod: [{ ...method, id: `${web}#key` }], assertionMethod: ['#key'] }
    const embedded = { assertionMethod: [{ ...method, id: `${web}#key` }] }
    for (const didDocument of [byFragment, embedded]) {
      const app = await resolverApp(() => ({ didDocument: { id: web, ...didDocument } }))
      expect(await answerTo(app, credential)).toEqual(accepted)
    }
  })

  it('whose key is for authentication only is unproved', async () => {
    const method = { id: `${web}#key`, ethereumAddress: issuer.address }
    const didDocument = { id: web, verificationMethod: [method], authentication: [method.id] }
    const app = await resolverApp(() => ({ didDocument }))
    expect(await answerTo(app, credentialBy(web, 'ES256K', es256kBy(issuer.privateKey)))).toEqual(unproved)
  })

  it('that is deactivated is unproved, whatever keys its document still lists', async () => {
    const app = await resolverApp((did) => ({
      ...documentOf(did, { ethereumAddress: issuer.address }),
      didDocumentMetadata: { deactivated: true }
    }))
    expect(await answerTo(app, credentialJwt(issuer, user.did))).toEqual(unproved)
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

  it('with 4 keys is tried by the first 3 only', async () => {
    const wrong = p256Key().publicKeyJwk
    const right = p256Key()
    const keys = (count: number): object[] => Array.from({ length: count }, () => ({ publicKeyJwk: wrong }))
    const credential = credentialBy(web, 'ES256', right.sign)
    const three = await resolverApp((did) =>
      documentOf(did, ...(keys(2) as Record<string, unknown>[]), { publicKeyJwk: right.publicKeyJwk })
    )
    const four = await resolverApp((did) =>
      documentOf(did, ...(keys(3) as Record<string, unknown>[]), { publicKeyJwk: right.publicKeyJwk })
    )
    expect(await answerTo(three, credential)).toEqual(accepted)
    expect(await answerTo(four, credential)).toEqual(refused)
  })
})

describe('POST /signup with the option resolver: an answer', () => {
  it.each(['invalidDid', 'unsupportedDidMethod', 'methodNotSupported', 'unknownNetwork', 'notFound'])(
    'of %s leaves a did:web unproved',
    async (error) => {
      const app = await resolverApp(() => ({ didResolutionMetadata: { error }, didDocument: null }))
      expect(await answerTo(app, credentialBy(web, 'ES256K', es256kBy(issuer.privateKey)))).toEqual(unproved)
    }
  )

  it('of notFound for a did:ethr is a chain out of reach, because every did:ethr exists', async () => {
    const app = await resolverApp(() => ({ didResolutionMetadata: { error: 'notFound' }, didDocument: null }))
    expect(await answerTo(app, credentialJwt(issuer, user.did))).toEqual(outOfReach)
  })

  it.each([
    ['an unknown error', { didResolutionMetadata: { error: 'internalError' }, didDocument: null }],
    [
      'an error with a document',
      { ...documentOf(web, { ethereumAddress: issuer.address }), didResolutionMetadata: { error: 'stale' } }
    ],
    ['nothing', undefined],
    ['null', null],
    ['a string', 'document'],
    ['an empty object', {}],
    ['a document that is an array', { didDocument: [] }]
  ])('that is %s is 503', async (_name, answer) => {
    const app = await resolverApp(() => answer)
    expect(await answerTo(app, credentialBy(web, 'ES256K', es256kBy(issuer.privateKey)))).toEqual(outOfReach)
  })

  it.each([
    ['no methods', {}],
    ['methods that are no list', { verificationMethod: 'all', assertionMethod: 5 }],
    ['methods that are no objects', { verificationMethod: [null, 'x', []], assertionMethod: [null, [], 7, 'x'] }],
    [
      'a method without a name',
      { verificationMethod: [{ ethereumAddress: issuer.address }], assertionMethod: ['undefined'] }
    ]
  ])('whose document has %s leaves the issuer unproved', async (_name, fields) => {
    const app = await resolverApp(() => ({ didDocument: { id: web, ...fields } }))
    expect(await answerTo(app, credentialBy(web, 'ES256K', es256kBy(issuer.privateKey)))).toEqual(unproved)
  })
})

describe('POST /signup with a resolver that', () => {
  const hanging: Promise<[number, string]>[] = []

  beforeAll(() => {
    const resolver = { resolve: () => new Promise(() => undefined) }
    const app = testApp({ resolver, signupBusinessLogic: () => undefined })
    hanging.push(app.then((one) => answerTo(one, credentialJwt(issuer, user.did))))
  })

  it('rejects is answered 503 with Retry-After, and its message stays in the log', async () => {
    const app = await resolverApp(() => Promise.reject(new Error('universe not found')))
    const response = await signUp(app.app, user, { credentials: [credentialJwt(issuer, user.did)] })
    expect([response.status, response.text, response.headers['retry-after']]).toEqual([...outOfReach, '10'])
    expect(JSON.stringify(app.log)).toContain('universe not found')
  })

  it('throws at once is answered 503', async () => {
    const app = await resolverApp(() => {
      throw new TypeError('no such thing')
    })
    expect(await answerTo(app, credentialJwt(issuer, user.did))).toEqual(outOfReach)
  })

  it('rejects with what is no error is answered 503', async () => {
    // eslint-disable-next-line @typescript-eslint/prefer-promise-reject-errors -- that is the point
    const app = await resolverApp(() => Promise.reject(undefined))
    expect(await answerTo(app, credentialJwt(issuer, user.did))).toEqual(outOfReach)
  })

  it('answers without a promise is taken at its word', async () => {
    const app = await resolverApp((did) => documentOf(did, { ethereumAddress: issuer.address }))
    expect(await answerTo(app, credentialJwt(issuer, user.did))).toEqual(accepted)
  })

  it('hangs is answered 503 after 3 s', async () => {
    expect(await hanging[0]).toEqual(outOfReach)
  })

  it('is asked once for fifty sign ups at a time, and again 10 s after a failure', async () => {
    let asked = 0
    let isAway = true
    const app = await resolverApp(async (did) => {
      asked += 1
      await new Promise(setImmediate)
      if (isAway) throw new Error('away')
      return documentOf(did, { ethereumAddress: issuer.address })
    })
    const together = async (): Promise<number[]> => {
      const users = Array.from({ length: 50 }, (_, at) => walletOf(4000 + at))
      const answers = await Promise.all(
        users.map((one) => signUp(app.app, one, { credentials: [credentialJwt(issuer, one.did)] }))
      )
      return [...new Set(answers.map(({ status }) => status))]
    }
    expect(await together()).toEqual([503])
    isAway = false
    app.clock.seconds += 9
    expect(await together()).toEqual([503])
    expect(asked).toBe(1)
    app.clock.seconds += 1
    expect(await together()).toEqual([200])
    expect(asked).toBe(2)
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
