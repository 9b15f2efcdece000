import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals'
import { SigningKey } from 'ethers'
import type { DidAuthConfig } from 'express-did-auth'
import { testApp, type TestApp } from '../support/test-app.js'
import { startChain, type TestChain } from '../support/chain.js'
import { checksumAddress } from '../support/checksum.js'
import {
  credentialJwt,
  credentialPayload,
  didJwtVcCredential,
  ed25519Key,
  es256kBy,
  jwtByHand,
  signUp
} from '../support/credentials.js'
import { stretchDeadlines } from '../support/stretch-deadlines.js'
import { walletOf } from '../support/wallet.js'

const user = walletOf(1)
const nobody = '0x0000000000000000000000000000000000000000'

let chain: TestChain
const apps: TestApp[] = []

beforeAll(async () => {
  stretchDeadlines()
  chain = await startChain()
})

afterEach(async () => {
  await Promise.all(apps.splice(0).map(({ requireDid }) => requireDid.close()))
})

afterAll(() => {
  chain.stop()
})

async function chainApp(config: Partial<DidAuthConfig> = {}): Promise<TestApp> {
  const app = await testApp({
    rpcUrl: chain.rpcUrl,
    registry: chain.registry,
    signupBusinessLogic: () => undefined,
    ...config
  })
  apps.push(app)
  return app
}

/** Status and text of a sign up with one credential. */
async function answerTo({ app }: TestApp, credential: string): Promise<[number, string]> {
  const response = await signUp(app, user, { credentials: [credential] })
  return [response.status, response.status === 200 ? '' : response.text]
}

const accepted = [200, '']
const refused = [401, 'Invalid credential']
const unproved = [401, 'Unproved credential issuer']
const outOfReach = [503, 'DID resolver unavailable, try again']

describe('POST /signup with rpcUrl: the owner of an issuer', () => {
  it.each(['ES256K', 'ES256K-R'] as const)('is at first the key of its address (%s)', async (alg) => {
    const issuer = walletOf(1001)
    expect(await answerTo(await chainApp(), await didJwtVcCredential(issuer, user.did, alg))).toEqual(accepted)
  })

  it('is not just any key', async () => {
    const forged = credentialJwt({ did: walletOf(1002).did, privateKey: walletOf(6666).privateKey }, user.did)
    expect(await answerTo(await chainApp(), forged)).toEqual(refused)
  })

  it('changes: the old key is refused and the new one accepted', async () => {
    const { did, address, privateKey } = walletOf(1003)
    const newOwner = walletOf(1004)
    await chain.changeOwner(address, newOwner.address)
    const app = await chainApp()
    expect(await answerTo(app, credentialJwt({ did, privateKey }, user.did))).toEqual(refused)
    expect(await answerTo(app, credentialJwt({ did, privateKey: newOwner.privateKey }, user.did))).toEqual(accepted)
  })

  it('changes back', async () => {
    const issuer = walletOf(1005)
    const between = walletOf(1006)
    await chain.changeOwner(issuer.address, between.address)
    await chain.changeOwner(issuer.address, issuer.address, between.address)
    expect(await answerTo(await chainApp(), credentialJwt(issuer, user.did))).toEqual(accepted)
  })

  it('is believed for 60 s, and asked for again after that', async () => {
    const issuer = walletOf(1007)
    const app = await chainApp()
    const credential = credentialJwt(issuer, user.did)
    expect(await answerTo(app, credential)).toEqual(accepted)
    await chain.changeOwner(issuer.address, walletOf(1008).address)
    app.clock.seconds += 59
    expect(await answerTo(app, credential)).toEqual(accepted)
    app.clock.seconds += 1
    expect(await answerTo(app, credential)).toEqual(refused)
  })

  it('is nobody once the DID is deactivated', async () => {
    const issuer = walletOf(1009)
    await chain.changeOwner(issuer.address, nobody)
    expect(await answerTo(await chainApp(), credentialJwt(issuer, user.did))).toEqual(unproved)
  })

  it.each([
    ['lower case', (address: string) => address.toLowerCase()],
    ['EIP-55', (address: string) => checksumAddress(address)],
    ['EIP-1191, chain 30', (address: string) => checksumAddress(address, 30)],
    ['EIP-1191, chain 31', (address: string) => checksumAddress(address, 31)],
    ['upper case', (address: string) => `0x${address.slice(2).toUpperCase()}`]
  ])('is found when the issuer spells its address in %s', async (_name, spelled) => {
    const { address, privateKey } = walletOf(1010)
    const issuer = { did: `did:ethr:rsk:${spelled(address)}`, privateKey }
    expect(await answerTo(await chainApp(), credentialJwt(issuer, user.did))).toEqual(accepted)
  })
})

describe('POST /signup with rpcUrl: a delegate of an issuer', () => {
  const delegate = walletOf(1100)

  it('of type veriKey signs credentials', async () => {
    const issuer = walletOf(1101)
    await chain.addDelegate(issuer.address, 'veriKey', delegate.address)
    const credential = credentialJwt({ did: issuer.did, privateKey: delegate.privateKey }, user.did)
    expect(await answerTo(await chainApp(), credential)).toEqual(accepted)
    expect(await answerTo(await chainApp(), credentialJwt(issuer, user.did))).toEqual(accepted)
  })

  it('of type veriKey signs none before it is added', async () => {
    const credential = credentialJwt({ did: walletOf(1102).did, privateKey: delegate.privateKey }, user.did)
    expect(await answerTo(await chainApp(), credential)).toEqual(refused)
  })

  it('of type veriKey signs none after it was revoked', async () => {
    const issuer = walletOf(1103)
    await chain.addDelegate(issuer.address, 'veriKey', delegate.address)
    await chain.revokeDelegate(issuer.address, 'veriKey', delegate.address)
    const credential = credentialJwt({ did: issuer.did, privateKey: delegate.privateKey }, user.did)
    expect(await answerTo(await chainApp(), credential)).toEqual(refused)
    expect(await answerTo(await chainApp(), credentialJwt(issuer, user.did))).toEqual(accepted)
  })

  it('of type veriKey signs none after its time', async () => {
    const issuer = walletOf(1104)
    // From an hour ago, for a minute.
    await chain.addDelegate(issuer.address, 'veriKey', delegate.address, 60)
    const credential = credentialJwt({ did: issuer.did, privateKey: delegate.privateKey }, user.did)
    expect(await answerTo(await chainApp(), credential)).toEqual(refused)
  })

  it('of type sigAuth signs credentials as well, because did:ethr lists it under assertionMethod', async () => {
    const issuer = walletOf(1105)
    await chain.addDelegate(issuer.address, 'sigAuth', delegate.address)
    const credential = credentialJwt({ did: issuer.did, privateKey: delegate.privateKey }, user.did)
    expect(await answerTo(await chainApp(), credential)).toEqual(accepted)
  })

  it('signs for that issuer only', async () => {
    await chain.addDelegate(walletOf(1106).address, 'veriKey', delegate.address)
    const credential = credentialJwt({ did: walletOf(1107).did, privateKey: delegate.privateKey }, user.did)
    expect(await answerTo(await chainApp(), credential)).toEqual(refused)
  })
})

describe('POST /signup with rpcUrl: a public key in the registry', () => {
  const secp256k1 = walletOf(1200)
  const secp256k1Bytes = Buffer.from(SigningKey.computePublicKey(secp256k1.privateKey, true).slice(2), 'hex')

  it('of type Ed25519 signs credentials with EdDSA, until it is revoked', async () => {
    const { did, address } = walletOf(1201)
    const key = ed25519Key()
    const publicKey = Buffer.from(String(key.publicKeyJwk.x), 'base64url')
    const credential = jwtByHand({ alg: 'EdDSA', typ: 'JWT' }, credentialPayload(did, user.did), key.sign)
    await chain.setAttribute(address, 'did/pub/Ed25519/veriKey/base64', publicKey)
    expect(await answerTo(await chainApp(), credential)).toEqual(accepted)
    await chain.revokeAttribute(address, 'did/pub/Ed25519/veriKey/base64', publicKey)
    expect(await answerTo(await chainApp(), credential)).toEqual(refused)
  })

  it('of type Secp256k1 signs credentials with ES256K', async () => {
    const { did, address } = walletOf(1202)
    await chain.setAttribute(address, 'did/pub/Secp256k1/veriKey/hex', secp256k1Bytes)
    const credential = credentialJwt({ did, privateKey: secp256k1.privateKey }, user.did)
    expect(await answerTo(await chainApp(), credential)).toEqual(accepted)
  })

  it('that is for encryption signs none', async () => {
    const { did, address } = walletOf(1203)
    await chain.setAttribute(address, 'did/pub/Secp256k1/enc/hex', secp256k1Bytes)
    const credential = credentialJwt({ did, privateKey: secp256k1.privateKey }, user.did)
    expect(await answerTo(await chainApp(), credential)).toEqual(refused)
  })

  it('that is no key at all does not spoil the others', async () => {
    const { did, address } = walletOf(1204)
    await chain.setAttribute(address, 'did/pub/Secp256k1/veriKey/hex', Buffer.from('garbage'))
    await chain.setAttribute(address, 'did/pub/Secp256k1/veriKey/hex', secp256k1Bytes)
    const credential = jwtByHand({ alg: 'ES256K' }, credentialPayload(did, user.did), es256kBy(secp256k1.privateKey))
    expect(await answerTo(await chainApp(), credential)).toEqual(accepted)
  })
})

describe('POST /signup with rpcUrl: the network of an issuer', () => {
  it('is rsk when networkName is absent, or named by the chain id that the node tells', async () => {
    const { address, privateKey } = walletOf(1300)
    const app = await chainApp()
    for (const network of ['rsk', '0x1f', '0x1F']) {
      const issuer = { did: `did:ethr:${network}:${address}`, privateKey }
      expect([network, await answerTo(app, credentialJwt(issuer, user.did))]).toEqual([network, accepted])
    }
  })

  it('is the one of networkName', async () => {
    const { address, privateKey } = walletOf(1301)
    const app = await chainApp({ networkName: 'rsk:testnet' })
    const testnet = { did: `did:ethr:rsk:testnet:${address}`, privateKey }
    expect(await answerTo(app, credentialJwt(testnet, user.did))).toEqual(accepted)
    expect(await answerTo(app, credentialJwt({ did: `did:ethr:rsk:${address}`, privateKey }, user.did))).toEqual(
      unproved
    )
  })

  it.each(['did:ethr', 'did:ethr:sepolia', 'did:ethr:constructor', 'did:ethr:__proto__', 'did:ethr:0x1'])(
    'that nobody configured (%s) leaves the issuer unproved',
    async (prefix) => {
      const { address, privateKey } = walletOf(1302)
      const issuer = { did: `${prefix}:${address}`, privateKey }
      expect(await answerTo(await chainApp(), credentialJwt(issuer, user.did))).toEqual(unproved)
    }
  )

  it.each([
    'did:web:issuer.example',
    'did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK',
    'did:ethr:rsk:0x1234'
  ])('cannot be that of %s, which stays unproved', async (did) => {
    const issuer = { did, privateKey: walletOf(1303).privateKey }
    expect(await answerTo(await chainApp(), credentialJwt(issuer, user.did))).toEqual(unproved)
  })

  it('without the contract at the address of `registry` is out of reach', async () => {
    const app = await chainApp({ registry: '0x00000000000000000000000000000000000000aa' })
    expect(await answerTo(app, credentialJwt(walletOf(1304), user.did))).toEqual(outOfReach)
  })
})
