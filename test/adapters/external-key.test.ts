import { beforeAll, describe, expect, it } from '@jest/globals'
import { createVerify } from 'node:crypto'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { externalResourceKey, externalSigner, type ExternalKey } from 'express-did-auth'
import { loadCurve } from '../../src/adapters/curve.js'
import { createResourceKeys } from '../../src/adapters/resource-keys.js'
import type { Curve, Deadline } from '../../src/ports.js'
import { noDeadline } from '../../src/time.js'
import { createStoredKey, type StoredKey } from '../support/fixtures/stored-key.js'

const serviceKey = createStoredKey('secp256k1', 1)
const resourceKey = createStoredKey('P-256', 1)
const HALF_ORDER = 0x7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0n

let curve: Curve
beforeAll(async () => {
  curve = await loadCurve()
})

/** Opens a key as the recipes do. */
const open = (key: StoredKey, sign: ExternalKey['signDigest'] = async (digest) => key.sign(digest)): ExternalKey => ({
  publicKey: key.der,
  signDigest: sign
})

/** Returns the DER signature of a key whose r or s has fewer than 32 bytes, with the text that it signs. */
function findShortSignature(key: StoredKey): string {
  for (let number = 0; ; number += 1) {
    const text = `text ${number}`
    const der = key.sign(curve.sha256(text))
    if (der[3]! < 32) return text
  }
}

describe('externalSigner', () => {
  it('computes the DID of the public key, on Rootstock by default', async () => {
    // The address is that of the private key 0x0101…01.
    const address = '0x1a642f0e3c3af545e7acbd38b07251b3990914f1'
    expect((await externalSigner(open(serviceKey))).serviceDid).toBe(`did:ethr:rsk:${address}`)
    expect((await externalSigner(open(serviceKey), '')).serviceDid).toBe(`did:ethr:${address}`)
    const fromPem = { ...open(serviceKey), publicKey: serviceKey.pem }
    expect((await externalSigner(fromPem)).serviceDid).toBe(`did:ethr:rsk:${address}`)
  })

  it('signs with a low s, although the service returns a high one', async () => {
    const { serviceSigner } = await externalSigner(open(serviceKey))
    for (const text of ['a token', findShortSignature(serviceKey)]) {
      const signature = Buffer.from((await serviceSigner(text)) as string, 'base64url')
      expect(signature).toHaveLength(64)
      expect(BigInt(`0x${signature.subarray(32).toString('hex')}`)).toBeLessThanOrEqual(HALF_ORDER)
      expect(curve.verify(curve.sha256(text), signature, serviceKey.der.subarray(-65))).toBe(true)
    }
  })

  it.each([
    ['JOSE instead of DER', async () => Buffer.alloc(64, 1), 'no ECDSA signature in DER'],
    ['nothing', async () => undefined as never, 'no ECDSA signature in DER'],
    [
      'a signature of another key',
      async (digest: Uint8Array) => createStoredKey('secp256k1', 2).sign(digest),
      'does not match the public key'
    ],
    ['a failure', async () => Promise.reject(new Error('KMSInvalidStateException')), 'KMSInvalidStateException']
  ])('rejects if the service returns %s', async (_name, sign, message) => {
    const { serviceSigner } = await externalSigner(open(serviceKey, sign))
    await expect(serviceSigner('a token')).rejects.toThrow(message)
  })

  it('refuses a key of P-256, another form, and a point outside of the curve', async () => {
    const sign = open(serviceKey).signDigest
    await expect(externalSigner(open(resourceKey))).rejects.toThrow('received a key of P-256')
    const other = { publicKey: 'ssh-rsa AAAA', signDigest: sign }
    await expect(externalSigner(other)).rejects.toThrow('received another form or kind of key')
    const outside = Buffer.from(serviceKey.der)
    outside[outside.length - 1]! ^= 2
    await expect(externalSigner({ publicKey: outside, signDigest: sign })).rejects.toThrow('no point of secp256k1')
  })
})

describe('externalResourceKey', () => {
  const issue = async (key: ExternalKey, deadline: Deadline = noDeadline): Promise<string> =>
    createResourceKeys([externalResourceKey(key)]).sign({ sub: 'alice' }, deadline)

  it('signs tokens that jose verifies with the published key', async () => {
    const keys = createResourceKeys([externalResourceKey(open(resourceKey))])
    const published = (await keys.publish()) as Parameters<typeof createLocalJWKSet>[0]
    expect(published.keys).toEqual([
      {
        kty: 'EC',
        crv: 'P-256',
        x: resourceKey.der.subarray(-64, -32).toString('base64url'),
        y: resourceKey.der.subarray(-32).toString('base64url'),
        kid: expect.stringMatching(/^[\w-]{43}$/),
        alg: 'ES256',
        use: 'sig'
      }
    ])
    const { payload, protectedHeader } = await jwtVerify(
      await keys.sign({ sub: 'alice' }, noDeadline),
      createLocalJWKSet(published)
    )
    expect(payload).toEqual({ sub: 'alice' })
    expect(protectedHeader).toEqual({ alg: 'ES256', typ: 'at+jwt', kid: published.keys[0]!.kid })
  })

  it('signs with ES256 when DER omits zero bytes', async () => {
    const text = findShortSignature(resourceKey)
    const signature = await externalResourceKey(open(resourceKey)).sign(Buffer.from(text))
    expect(signature).toHaveLength(64)
    const key = { key: resourceKey.pem, dsaEncoding: 'ieee-p1363' } as const
    expect(createVerify('sha256').update(text).verify(key, signature)).toBe(true)
  })

  it('refuses a key of secp256k1', () =>
    expect(() => externalResourceKey(open(serviceKey))).toThrow('received a key of secp256k1'))

  it.each([
    ['fails', async () => Promise.reject(new Error('AccessDenied')), 'AccessDenied'],
    ['returns no DER', async () => Buffer.alloc(64), 'no ECDSA signature in DER'],
    ['signs with another key', async (digest: Uint8Array) => createStoredKey('P-256', 2).sign(digest), 'does not match']
  ])('answers ERR_SIGNER with the cause if the service %s', async (_name, sign, message) => {
    const cause = expect.objectContaining({ message: expect.stringContaining(message) })
    const failure = { code: 'ERR_SIGNER', retryAfterSeconds: 5, cause }
    await expect(issue(open(resourceKey, sign))).rejects.toMatchObject(failure)
  })

  it('answers ERR_SIGNER if the service is late, within 10 s and the deadline of the request', async () => {
    const waits: number[] = []
    const over: Deadline = {
      async within(seconds, work, expired) {
        waits.push(seconds)
        void work()
        return Promise.reject(expired())
      }
    }
    const cause = expect.objectContaining({ message: 'the signer took longer than 10 s' })
    const late = issue(
      open(resourceKey, async () => new Promise(() => undefined)),
      over
    )
    await expect(late).rejects.toMatchObject({ code: 'ERR_SIGNER', cause })
    expect(waits).toEqual([10])
  })

  it('publishes without a call, and refuses a public key that is no point of P-256', async () => {
    const sign = async (): Promise<never> => Promise.reject(new Error('called'))
    const key = externalResourceKey(open(resourceKey, sign))
    expect((await createResourceKeys([key]).publish()).keys).toHaveLength(1)
    const outside = { ...key, publicKey: { ...key.publicKey, y: key.publicKey.x } }
    await expect(createResourceKeys([outside]).publish()).rejects.toThrow()
  })
})
