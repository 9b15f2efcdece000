import { afterEach, beforeAll, describe, expect, it, jest } from '@jest/globals'
import { ES256KSigner, hexToBytes } from 'did-jwt'
import { sha256, SigningKey } from 'ethers/crypto'
import { toUtf8Bytes } from 'ethers/utils'
import { es256kSigner, type Signer } from 'express-did-auth'
import { loadCurve } from '../../src/adapters/curve.js'
import { createServiceKey } from '../../src/adapters/service-key.js'
import type { Curve, Deadline, ServiceKey } from '../../src/ports.js'
import { noDeadline } from '../../src/time.js'
import { createThrowing } from '../support/fixtures/refusal.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(9001)
const other = createNumberedWallet(9002)
const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

let curve: Curve
let warnings: Record<string, unknown>[]
let changes: string[]

beforeAll(async () => {
  curve = await loadCurve()
})

afterEach(() => {
  jest.useRealTimers()
})

function createKey(signer: unknown, serviceDid = wallet.did): ServiceKey {
  warnings = []
  changes = []
  const onKeyChange = (address: string): void => void changes.push(address)
  const silent = (): undefined => undefined
  const logger = { info: silent, error: silent, warn: (fields: Record<string, unknown>) => void warnings.push(fields) }
  return createServiceKey({ curve, logger, onKeyChange }, signer as Signer, serviceDid)
}

function computePublicKeyHex(privateKey: string): string {
  return SigningKey.computePublicKey(privateKey).slice(2)
}

async function publicKeyHex(key: ServiceKey): Promise<string> {
  return Buffer.from(await key.publicKey()).toString('hex')
}

/** Returns r and s of an ethers signature, without 0x. */
function rs(data: unknown, privateKey: string): { r: string; s: string; yParity: number } {
  const bytes = typeof data === 'string' ? toUtf8Bytes(data) : (data as Uint8Array)
  const { r, s, yParity } = new SigningKey(privateKey).sign(sha256(bytes))
  return { r: r.slice(2), s: s.slice(2), yParity }
}

const sign = (key: ServiceKey): Promise<string> => key.issueJwt({ iss: wallet.did, iat: 0 }, noDeadline)

/** Expects a signature of 64 bytes with low s over the signed data. */
async function expectSignedBy({ privateKey }: typeof wallet, key: ServiceKey): Promise<void> {
  const [head, payload, signature] = (await sign(key)).split('.')
  const { r, s } = rs(`${head}.${payload}`, privateKey)
  expect(signature).toBe(base64url(r + s))
}

const highS = (s: string): string => (order - BigInt(`0x${s}`)).toString(16).padStart(64, '0')
const base64url = (hex: string): string => Buffer.from(hex, 'hex').toString('base64url')

const signers: Record<string, (data: unknown, key: string) => unknown> = {
  'es256kSigner of this package': (data, key) => es256kSigner(key)(data as string),
  'ES256KSigner of did-jwt': (data, key) => ES256KSigner(hexToBytes(key))(data as string),
  '{ r, s } with a high s': (data, key) => {
    const { r, s } = rs(data, key)
    return { r, s: highS(s) }
  },
  'a value instead of a promise': (data, key) => {
    const { r, s } = rs(data, key)
    return base64url(r + s)
  }
}

describe('createServiceKey', () => {
  it.each(Object.entries(signers))(
    'recovers the key from a signer that returns %s, and signs 64 bytes with low s',
    async (_name, answer) => {
      const key = createKey((data: unknown) => answer(data, wallet.privateKey))
      expect(await publicKeyHex(key)).toBe(computePublicKeyHex(wallet.privateKey))
      await expectSignedBy(wallet, key)
      expect(warnings).toEqual([])
    }
  )

  it('requests one signature for any number of callers', async () => {
    const signer = jest.fn(ES256KSigner(hexToBytes(wallet.privateKey)))
    const key = createKey(signer)
    await Promise.all([key.publicKey(), key.publicKey(), key.publicKey()])
    expect(signer).toHaveBeenCalledTimes(1)
  })

  it('never asks the signer for a signature that could be a token', async () => {
    const signer = jest.fn(ES256KSigner(hexToBytes(other.privateKey)))
    await createKey(signer).publicKey()
    expect(signer.mock.calls.map(([data]) => String(data)).filter((data) => !data.includes(' '))).toEqual([])
  })

  it('warns once if the key differs from the key of serviceDid', async () => {
    const key = createKey(ES256KSigner(hexToBytes(other.privateKey)))
    expect(await publicKeyHex(key)).toBe(computePublicKeyHex(other.privateKey))
    await key.publicKey()
    await sign(key)
    expect(warnings).toEqual([
      { event: 'signer-address', address: other.address.toLowerCase(), serviceDid: wallet.did }
    ])
  })

  it('does not warn for a serviceDid without an address', async () => {
    const key = createKey(ES256KSigner(hexToBytes(wallet.privateKey)), 'did:web:service.example')
    expect(await publicKeyHex(key)).toBe(computePublicKeyHex(wallet.privateKey))
    expect(warnings).toEqual([])
  })

  it.each([
    ['throws', createThrowing(new Error('no key'))],
    ['rejects', () => Promise.reject(new Error('no key'))],
    ['returns words', () => 'not a signature at all'],
    ['always returns the same signature', () => base64url('11'.repeat(32) + '22'.repeat(32))]
  ])('rejects with ERR_SIGNER and a retry time when the signer %s', async (_name, signer) => {
    const failure = { code: 'ERR_SIGNER', message: 'Signer unavailable, try again', retryAfterSeconds: 5 }
    await expect(createKey(signer).publicKey()).rejects.toMatchObject(failure)
    await expect(sign(createKey(signer))).rejects.toMatchObject(failure)
  })

  it('rejects with ERR_SIGNER after 10 s when the signer hangs, and leaves no timer running', async () => {
    jest.useFakeTimers()
    const hangingRequest = createKey(() => new Promise(() => undefined)).publicKey()
    const failure = expect(hangingRequest).rejects.toMatchObject({ code: 'ERR_SIGNER' })
    await jest.advanceTimersByTimeAsync(9_999)
    expect(jest.getTimerCount()).toBe(1)
    await jest.advanceTimersByTimeAsync(1)
    await failure
    expect(jest.getTimerCount()).toBe(0)
  })

  it('retries a signer that failed', async () => {
    let isAway = true
    const validSigner = ES256KSigner(hexToBytes(wallet.privateKey))
    const key = createKey((data: string) => (isAway ? Promise.reject(new Error('away')) : validSigner(data)))
    await expect(key.publicKey()).rejects.toMatchObject({ code: 'ERR_SIGNER' })
    isAway = false
    expect(await publicKeyHex(key)).toBe(computePublicKeyHex(wallet.privateKey))
  })

  it('rejects with ERR_SIGNER if the signer returns garbage later, and returns no invalid signature', async () => {
    let isMad = false
    const validSigner = ES256KSigner(hexToBytes(wallet.privateKey))
    const key = createKey((data: string) => validSigner(isMad ? `${data}!` : data))
    await key.publicKey()
    isMad = true
    await expect(sign(key)).rejects.toMatchObject({ code: 'ERR_SIGNER' })
  })

  it('recovers the key again on the request after it changed', async () => {
    let privateKey = wallet.privateKey
    const key = createKey((data: string) => ES256KSigner(hexToBytes(privateKey))(data))
    await key.publicKey()
    privateKey = other.privateKey
    await expect(sign(key)).rejects.toMatchObject({ code: 'ERR_SIGNER' })
    await expectSignedBy(other, key)
    expect(await publicKeyHex(key)).toBe(computePublicKeyHex(other.privateKey))
    expect(warnings).toHaveLength(1)
  })

  it('reports each key that replaces another one, also a returning one, but not the first', async () => {
    let privateKey = wallet.privateKey
    const key = createKey((data: string) => ES256KSigner(hexToBytes(privateKey))(data))
    const changeTo = async (next: string): Promise<void> => {
      privateKey = next
      await expect(sign(key)).rejects.toMatchObject({ code: 'ERR_SIGNER' })
      await Promise.all([key.publicKey(), sign(key)])
    }
    await key.publicKey()
    await sign(key)
    expect(changes).toEqual([])
    await changeTo(other.privateKey)
    expect(changes).toEqual([other.address.toLowerCase()])
    await changeTo(wallet.privateKey)
    expect(changes).toEqual([other.address.toLowerCase(), wallet.address.toLowerCase()])
  })

  it('reports no change if the signer fails and returns with the same key', async () => {
    let isAway = false
    const validSigner = ES256KSigner(hexToBytes(wallet.privateKey))
    const key = createKey((data: string) => (isAway ? validSigner(`${data}!`) : validSigner(data)))
    await key.publicKey()
    isAway = true
    await expect(sign(key)).rejects.toMatchObject({ code: 'ERR_SIGNER' })
    isAway = false
    await sign(key)
    expect(changes).toEqual([])
  })

  it('does not warn for a serviceDid that is a public key', async () => {
    const compressed = SigningKey.computePublicKey(wallet.privateKey, true)
    const key = createKey(ES256KSigner(hexToBytes(wallet.privateKey)), `did:ethr:rsk:${compressed}`)
    expect(await publicKeyHex(key)).toBe(computePublicKeyHex(wallet.privateKey))
    expect(warnings).toEqual([])
    const foreign = createKey(ES256KSigner(hexToBytes(other.privateKey)), `did:ethr:rsk:${compressed}`)
    await foreign.publicKey()
    expect(warnings).toMatchObject([{ event: 'signer-address', address: other.address.toLowerCase() }])
  })

  it('rejects with ERR_SIGNER if the public key in serviceDid is not on the curve', async () => {
    const key = createKey(ES256KSigner(hexToBytes(wallet.privateKey)), `did:ethr:0x02${'f'.repeat(64)}`)
    await expect(key.publicKey()).rejects.toMatchObject({ code: 'ERR_SIGNER' })
  })

  // Cause: in Workers, a call never settles if the client whose request started it disconnects.
  it('asks for the public key again after a call that never settles', async () => {
    let isStopped = true
    const remote = ES256KSigner(hexToBytes(wallet.privateKey))
    const key = createKey((data: string) => (isStopped ? new Promise(() => undefined) : remote(data)))
    const over: Deadline = { within: async (_seconds, _work, expired) => Promise.reject(expired()) }
    const late = key.issueJwt({ iss: wallet.did, iat: 0 }, over)
    await expect(late).rejects.toMatchObject({ code: 'ERR_SIGNER' })
    isStopped = false
    await expectSignedBy(wallet, key)
  })
})
