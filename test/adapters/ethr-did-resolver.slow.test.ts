import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import { SigningKey } from 'ethers'
import type { DidAuthConfig } from 'express-did-auth'
import { testApp, type TestApp } from '../support/servers/test-app.js'
import { startChain, type TestChain } from '../support/engines/chain.js'
import {
  answerToCredential,
  createCredentialJwt,
  createCredentialPayload,
  didJwtVcCredential,
  ed25519Key,
  es256kBy,
  jwtByHand
} from '../support/fixtures/credentials.js'
import { holdTime } from '../support/fixtures/hold-time.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const user = createNumberedWallet(1)
const nobody = '0x0000000000000000000000000000000000000000'

let chain: TestChain

beforeAll(async () => {
  chain = await startChain()
})

beforeEach(() => void holdTime())

afterAll(() => chain.stop())

async function chainApp(config: Partial<DidAuthConfig> = {}): Promise<TestApp> {
  const { rpcUrl, registry } = chain
  return testApp({ rpcUrl, registry, signupBusinessLogic: () => undefined, ...config })
}

const answerTo = (app: TestApp, credential: string) => answerToCredential(app, user, credential)

const accepted = [200, '']
const refused = [401, 'Invalid credential']
const unproved = [401, 'Unproved credential issuer']
const outOfReach = [503, 'DID resolver unavailable, try again']

describe('POST /signup with rpcUrl: the owner of an issuer', () => {
  it.each(['ES256K', 'ES256K-R'] as const)('is initially the key of its address (%s)', async (alg) => {
    const issuer = createNumberedWallet(1001)
    expect(await answerTo(await chainApp(), await didJwtVcCredential(issuer, user.did, alg))).toEqual(accepted)
  })

  it('is not any other key', async () => {
    const forged = createCredentialJwt(
      { did: createNumberedWallet(1002).did, privateKey: createNumberedWallet(6666).privateKey },
      user.did
    )
    expect(await answerTo(await chainApp(), forged)).toEqual(refused)
  })

  it('can change: the old key is refused and the new one accepted', async () => {
    const { did, address, privateKey } = createNumberedWallet(1003)
    const newOwner = createNumberedWallet(1004)
    await chain.changeOwner(address, newOwner.address)
    const app = await chainApp()
    expect(await answerTo(app, createCredentialJwt({ did, privateKey }, user.did))).toEqual(refused)
    expect(await answerTo(app, createCredentialJwt({ did, privateKey: newOwner.privateKey }, user.did))).toEqual(
      accepted
    )
  })

  it('does not exist after the DID is deactivated', async () => {
    const issuer = createNumberedWallet(1009)
    await chain.changeOwner(issuer.address, nobody)
    expect(await answerTo(await chainApp(), createCredentialJwt(issuer, user.did))).toEqual(unproved)
  })
})

describe('POST /signup with rpcUrl: a delegate of an issuer', () => {
  const delegate = createNumberedWallet(1100)

  it.each([
    ['of type veriKey', 1101, (address: string) => chain.addDelegate(address, 'veriKey', delegate.address), accepted],
    // did:ethr lists it under assertionMethod as well.
    ['of type sigAuth', 1105, (address: string) => chain.addDelegate(address, 'sigAuth', delegate.address), accepted],
    ['that was never added', 1102, () => undefined, refused],
    [
      'of another issuer',
      1107,
      () => chain.addDelegate(createNumberedWallet(1106).address, 'veriKey', delegate.address),
      refused
    ],
    [
      'that was revoked',
      1103,
      async (address: string) => {
        await chain.addDelegate(address, 'veriKey', delegate.address)
        await chain.revokeDelegate(address, 'veriKey', delegate.address)
      },
      refused
    ],
    // The delegate was added an hour ago for a minute.
    [
      'whose time is over',
      1104,
      (address: string) => chain.addDelegate(address, 'veriKey', delegate.address, 60),
      refused
    ]
  ])('%s, signs credentials or not, and the owner still does', async (_name, number, register, expected) => {
    const issuer = createNumberedWallet(number)
    await register(issuer.address)
    const credential = createCredentialJwt({ did: issuer.did, privateKey: delegate.privateKey }, user.did)
    expect(await answerTo(await chainApp(), credential)).toEqual(expected)
    expect(await answerTo(await chainApp(), createCredentialJwt(issuer, user.did))).toEqual(accepted)
  })
})

describe('POST /signup with rpcUrl: a public key in the registry', () => {
  const secp256k1 = createNumberedWallet(1200)
  const secp256k1Bytes = Buffer.from(SigningKey.computePublicKey(secp256k1.privateKey, true).slice(2), 'hex')

  it('signs credentials with EdDSA if its type is Ed25519, until it is revoked', async () => {
    const { did, address } = createNumberedWallet(1201)
    const key = ed25519Key()
    const publicKey = Buffer.from(String(key.publicKeyJwk.x), 'base64url')
    const credential = jwtByHand({ alg: 'EdDSA', typ: 'JWT' }, createCredentialPayload(did, user.did), key.sign)
    await chain.setAttribute(address, 'did/pub/Ed25519/veriKey/base64', publicKey)
    expect(await answerTo(await chainApp(), credential)).toEqual(accepted)
    await chain.revokeAttribute(address, 'did/pub/Ed25519/veriKey/base64', publicKey)
    expect(await answerTo(await chainApp(), credential)).toEqual(refused)
  })

  it('signs credentials with ES256K if its type is Secp256k1', async () => {
    const { did, address } = createNumberedWallet(1202)
    await chain.setAttribute(address, 'did/pub/Secp256k1/veriKey/hex', secp256k1Bytes)
    const credential = createCredentialJwt({ did, privateKey: secp256k1.privateKey }, user.did)
    expect(await answerTo(await chainApp(), credential)).toEqual(accepted)
  })

  it('does not sign if it is for encryption', async () => {
    const { did, address } = createNumberedWallet(1203)
    await chain.setAttribute(address, 'did/pub/Secp256k1/enc/hex', secp256k1Bytes)
    const credential = createCredentialJwt({ did, privateKey: secp256k1.privateKey }, user.did)
    expect(await answerTo(await chainApp(), credential)).toEqual(refused)
  })

  it('does not affect the other keys if it is malformed', async () => {
    const { did, address } = createNumberedWallet(1204)
    await chain.setAttribute(address, 'did/pub/Secp256k1/veriKey/hex', Buffer.from('garbage'))
    await chain.setAttribute(address, 'did/pub/Secp256k1/veriKey/hex', secp256k1Bytes)
    const credential = jwtByHand(
      { alg: 'ES256K' },
      createCredentialPayload(did, user.did),
      es256kBy(secp256k1.privateKey)
    )
    expect(await answerTo(await chainApp(), credential)).toEqual(accepted)
  })
})

describe('POST /signup with rpcUrl: the network of an issuer', () => {
  it('is rsk if networkName is missing, or named by the chain id of the node', async () => {
    const { address, privateKey } = createNumberedWallet(1300)
    const app = await chainApp()
    for (const network of ['rsk', '0x1f', '0x1F']) {
      const issuer = { did: `did:ethr:${network}:${address}`, privateKey }
      expect([network, await answerTo(app, createCredentialJwt(issuer, user.did))]).toEqual([network, accepted])
    }
  })

  it('is that of networkName', async () => {
    const { address, privateKey } = createNumberedWallet(1301)
    const app = await chainApp({ networkName: 'rsk:testnet' })
    const testnet = { did: `did:ethr:rsk:testnet:${address}`, privateKey }
    expect(await answerTo(app, createCredentialJwt(testnet, user.did))).toEqual(accepted)
    expect(await answerTo(app, createCredentialJwt({ did: `did:ethr:rsk:${address}`, privateKey }, user.did))).toEqual(
      unproved
    )
  })

  it.each(['did:ethr', 'did:ethr:sepolia', 'did:ethr:constructor', 'did:ethr:__proto__', 'did:ethr:0x1'])(
    'leaves the issuer unproved if it is not configured (%s)',
    async (prefix) => {
      const { address, privateKey } = createNumberedWallet(1302)
      const issuer = { did: `${prefix}:${address}`, privateKey }
      expect(await answerTo(await chainApp(), createCredentialJwt(issuer, user.did))).toEqual(unproved)
    }
  )

  it('is unavailable without a contract at the address of `registry`', async () => {
    const app = await chainApp({ registry: '0x00000000000000000000000000000000000000aa' })
    expect(await answerTo(app, createCredentialJwt(createNumberedWallet(1304), user.did))).toEqual(outOfReach)
  })
})
