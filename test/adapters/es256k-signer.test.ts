import { describe, expect, it } from '@jest/globals'
import { createJWT, ES256KSigner, hexToBytes, verifyJWS } from 'did-jwt'
import { SigningKey } from 'ethers/crypto'
import { didOfPrivateKey, es256kSigner, isPrivateKey } from 'express-did-auth'
import { execFileSync } from 'node:child_process'
import { pathToFileURL } from 'node:url'
import { loadCurve } from '../../src/adapters/curve.js'
import { issueJwt } from '../../src/adapters/service-key.js'
import { isSignedBy, parseJwt } from '../../src/protocol/jwt.js'
import { es256k } from '../protocol/forge-jwt.js'
import { nodeOptions, scriptFile } from '../support/servers/run-script.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

// Private key 1, whose address is well known.
const privateKey = '0000000000000000000000000000000000000000000000000000000000000001'
const address = '0x7e5f4552091a69125d5dfcb7b8c2659029395bdf'
const order = 'fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141'

describe('es256kSigner', () => {
  it.each([
    ['hexadecimal', privateKey],
    ['hexadecimal with 0x', `0x${privateKey}`],
    ['bytes', Uint8Array.from(Buffer.from(privateKey, 'hex'))],
    ['a Buffer', Buffer.from(privateKey, 'hex')]
  ])('accepts a key as %s, and signs like did-jwt', async (_name, key) => {
    const theirs = await ES256KSigner(hexToBytes(privateKey))('some data')
    expect(await es256kSigner(key)('some data')).toBe(theirs)
  })

  it('signs bytes and text', async () => {
    const signer = es256kSigner(privateKey)
    expect(await signer(new TextEncoder().encode('some data'))).toBe(await signer('some data'))
  })

  it('works as a signer in createJWT of did-jwt', async () => {
    const did = `did:ethr:rsk:${address}`
    const jwt = await createJWT(
      { hello: 'world' },
      { issuer: did, signer: es256kSigner(privateKey) },
      { alg: 'ES256K' }
    )
    const publicKeyHex = SigningKey.computePublicKey(`0x${privateKey}`, true).slice(2)
    const method = { id: `${did}#key`, type: 'EcdsaSecp256k1VerificationKey2019', controller: did, publicKeyHex }
    expect(verifyJWS(jwt, method)).toEqual(method)
  })

  it('keeps its key if the caller wipes the bytes', async () => {
    const bytes = Buffer.from(privateKey, 'hex')
    const signer = es256kSigner(bytes)
    bytes.fill(0)
    expect(await signer('some data')).toBe(await es256kSigner(privateKey)('some data'))
  })
})

describe('didOfPrivateKey', () => {
  it('returns did:ethr on Rootstock, or on the given network', async () => {
    expect(await didOfPrivateKey(privateKey)).toBe(`did:ethr:rsk:${address}`)
    expect(await didOfPrivateKey(privateKey, 'rsk:testnet')).toBe(`did:ethr:rsk:testnet:${address}`)
    expect(await didOfPrivateKey(privateKey, '')).toBe(`did:ethr:${address}`)
  })

  it('rejects an invalid private key', async () => {
    await expect(didOfPrivateKey('0'.repeat(64))).rejects.toThrow('the private key is not in the range of secp256k1')
    await expect(didOfPrivateKey('key')).rejects.toThrow('give a private key of 32 bytes')
  })
})

describe('es256kSigner and isPrivateKey', () => {
  it.each([
    ['64 digits', '1'.repeat(64)],
    ['digits after 0x', `0x${'aB'.repeat(32)}`],
    ['32 bytes', new Uint8Array(32).fill(1)],
    ['the largest key', order.replace(/1$/, '0')]
  ])('accept %s', async (_what, key) => {
    expect(isPrivateKey(key)).toBe(true)
    await es256kSigner(key)('data')
  })

  const malformed = 'give a private key of 32 bytes, or its 64 hexadecimal digits'
  const outOfRange = 'the private key is not in the range of secp256k1'
  it.each<[string, unknown, string]>([
    ['63 digits', privateKey.slice(1), malformed],
    ['65 digits', `${privateKey}0`, malformed],
    ['no hexadecimal', 'g'.repeat(64), malformed],
    ['a line feed', `${privateKey}\n`, malformed],
    ['31 bytes', new Uint8Array(31).fill(1), malformed],
    ['33 bytes', new Uint8Array(33).fill(1), malformed],
    ['a list', [1, 2, 3], malformed],
    ['nothing', undefined, malformed],
    ['a number', 1, malformed],
    ['0', '0'.repeat(64), outOfRange],
    ['n', order, outOfRange],
    ['more than n', 'f'.repeat(64), outOfRange]
  ])('refuse %s; the signer does so on first use and does not reveal the key', async (_what, key, message) => {
    expect(isPrivateKey(key)).toBe(false)
    await expect(es256kSigner(key as string)('data')).rejects.toEqual(new TypeError(message))
  })
})

const sign = es256k(createNumberedWallet(7777).privateKey)
const claims = { iss: 'did:ethr:rsk:0x1', iat: 1_800_000_000, a: 'ü', b: [1, null] }

describe('issueJwt', () => {
  it('signs header and payload as ES256K, and isSignedBy verifies the key', async () => {
    const curve = await loadCurve()
    const inputs: string[] = []
    const jwt = await issueJwt(claims, async (data) => {
      inputs.push(data)
      return sign(data)
    })
    expect(inputs).toEqual([jwt.slice(0, jwt.lastIndexOf('.'))])
    const publicKey = curve.publicKeyOf(Buffer.from(createNumberedWallet(7777).privateKey.slice(2), 'hex'))!
    expect(isSignedBy(curve, parseJwt(jwt, 4096)!, publicKey)).toBe(true)
    const otherKey = curve.publicKeyOf(Buffer.from(createNumberedWallet(1).privateKey.slice(2), 'hex'))!
    expect(isSignedBy(curve, parseJwt(jwt, 4096)!, otherKey)).toBe(false)
  })

  // did-jwt has a clock of its own, and options that add to a payload.
  it('adds and changes no header field or claim, not even a time', async () => {
    const jwt = await issueJwt(claims, async (data) => sign(data))
    const [header, payload] = jwt.split('.').map((part) => Buffer.from(part, 'base64url').toString())
    expect(header).toBe('{"alg":"ES256K","typ":"JWT"}')
    expect(JSON.parse(payload!)).toEqual(claims)
  })

  it('does not change a frozen payload, and fails with the error of its signer', async () => {
    const failure = new Error('the signer is unavailable')
    const issued = issueJwt(Object.freeze({ ...claims }), () => Promise.reject(failure))
    await expect(issued).rejects.toBe(failure)
  })

  // The import takes as long as this package's own. A process without did-jwt shows when it is loaded.
  it('loads did-jwt with the first token, not on import or at setup', () => {
    const script = `
      import express from 'express'
      import { setupDidAuth } from 'express-did-auth'
      import { accessTokenFor, testConfig, wallet } from 'express-did-auth/testing'
      await setupDidAuth(express(), testConfig()).ready
      console.log('ready')
      await accessTokenFor(wallet('alice').did).catch(({ code }) => console.log(code))`
    const imports = pathToFileURL(scriptFile('test/support/servers/server-imports.ts')).href
    const args = [...nodeOptions, '--import', imports, '--input-type=module', '--eval', script]
    const env = { ...process.env, TEST_MISSING: 'did-jwt' }
    expect(execFileSync(process.execPath, args, { encoding: 'utf8', env })).toBe('ready\nERR_MODULE_NOT_FOUND\n')
  })
})
