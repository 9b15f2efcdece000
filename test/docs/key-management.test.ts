import { describe, expect, it } from '@jest/globals'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readDocument } from '../support/fixtures/documents.js'
import { expectSignedTokens, KeyRecipe, logInAsAlice, requestToken } from '../support/fixtures/key-recipes.js'
import { createStoredKey } from '../support/fixtures/stored-key.js'

interface SignRequest {
  name: string
  digest: { sha256: Uint8Array }
}

const keys = new Map([
  ['service-key', createStoredKey('secp256k1', 1)],
  ['resource-key', createStoredKey('P-256', 1)]
])

/** Stand-in for Google's client: it checks the shape of calls, and answers as the service does. */
const googleKms = {
  failure: undefined as Error | undefined,
  answer: undefined as unknown,
  calls: [] as string[],

  async getPublicKey({ name }: { name: string }, options: object) {
    expect(options).toEqual({ timeout: 3_000 })
    return [{ pem: keys.get(name)!.pem, algorithm: 'EC_SIGN', name }, undefined, undefined]
  },
  async asymmetricSign({ name, digest: { sha256 } }: SignRequest, options: object) {
    expect(options).toEqual({ timeout: 3_000 })
    expect(sha256).toHaveLength(32)
    this.calls.push(name)
    if (this.failure !== undefined) throw this.failure
    return [{ signature: this.answer ?? keys.get(name)!.sign(sha256), name }, undefined, undefined]
  }
}
Object.assign(globalThis, { googleKms })

const recipe = new KeyRecipe('@google-cloud/kms')
const standIn = join(recipe.folder, 'node_modules/@google-cloud/kms')
mkdirSync(standIn, { recursive: true })
writeFileSync(join(standIn, 'package.json'), JSON.stringify({ type: 'module', exports: './index.js' }))
writeFileSync(
  join(standIn, 'index.js'),
  'export class KeyManagementServiceClient { constructor() { return globalThis.googleKms } }'
)

describe('the recipe for Google Cloud KMS', () => {
  it('signs access tokens and resource tokens that their verifiers accept', async () => {
    await expectSignedTokens(await recipe.start('service-key', 'resource-key'))
    expect(googleKms.calls).toEqual(expect.arrayContaining(['service-key', 'resource-key']))
  })

  it.each([
    ['fails', Object.assign(new Error('7 PERMISSION_DENIED: denied'), { code: 7 }), undefined],
    ['is slow, so that the call times out', Object.assign(new Error('4 DEADLINE_EXCEEDED'), { code: 4 }), undefined],
    ['returns no signature', undefined, Buffer.alloc(0)]
  ])('answers 503 while the service %s, and recovers', async (_name, failure, answer) => {
    const app = await recipe.start('service-key', 'resource-key')
    const fetch = await logInAsAlice(app)
    Object.assign(googleKms, { failure, answer })
    const refused = await requestToken(fetch)
    expect([refused.status, await refused.text()]).toEqual([503, 'Signer unavailable, try again'])
    await expect(logInAsAlice(app)).rejects.toThrow('503 Signer unavailable, try again')
    Object.assign(googleKms, { failure: undefined, answer: undefined })
    await expectSignedTokens(app)
  })

  it('refuses to start with keys of the wrong kind', async () => {
    await expect(recipe.start('resource-key', 'resource-key')).rejects.toThrow('received a key of P-256')
    await expect(recipe.start('service-key', 'service-key')).rejects.toThrow('received a key of secp256k1')
  })
})

it('each recipe for key management has at most 25 lines', () => {
  const lengths = readDocument('src/guides/KEY-MANAGEMENT.md').blocks.map(
    ({ code }) => code.trimEnd().split('\n').length
  )
  expect(lengths.length).toBeGreaterThan(3)
  expect(Math.max(...lengths)).toBeLessThanOrEqual(25)
})
