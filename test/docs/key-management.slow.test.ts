import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { expectSignedTokens, KeyRecipe, logInAsAlice, requestToken } from '../support/fixtures/key-recipes.js'
import { createStoredKey } from '../support/fixtures/stored-key.js'
import { setEnvironment } from '../support/servers/run-script.js'

const keys = new Map([
  ['alias/service', createStoredKey('secp256k1', 1)],
  ['alias/resource', createStoredKey('P-256', 1)]
])

/** Current fault of the stand-in. `slow`: no answer at all. */
let fault: 'none' | 'denied' | 'broken' | 'slow' = 'none'

/** Answers by AWS's JSON protocol 1.1. The requests come from the real client, which `npm run test:slow` installs. */
async function answer(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const fields = JSON.parse(await text(req)) as Record<string, string>
  if (fault === 'slow') return
  if (fault === 'broken') {
    res.destroy()
    return
  }
  const [status, body] = handle(String(req.headers['x-amz-target']), fields)
  res.writeHead(status, { 'Content-Type': 'application/x-amz-json-1.1' }).end(JSON.stringify(body))
}

/** Returns status and body of the answer to a request of the client. */
function handle(target: string, { KeyId = '', ...fields }: Record<string, string>): [status: number, body: object] {
  const key = keys.get(KeyId)
  if (fault === 'denied') return [400, { __type: 'AccessDeniedException', message: 'denied' }]
  if (key === undefined) return [400, { __type: 'NotFoundException', message: 'no such key' }]
  if (target === 'TrentService.GetPublicKey') return [200, { KeyId, PublicKey: key.der.toString('base64') }]
  const { Message = '', MessageType, SigningAlgorithm } = fields
  const digest = Buffer.from(Message, 'base64')
  const isDigest = MessageType === 'DIGEST' && SigningAlgorithm === 'ECDSA_SHA_256' && digest.length === 32
  if (target !== 'TrentService.Sign' || !isDigest) return [400, { __type: 'ValidationException', message: 'no digest' }]
  return [200, { KeyId, Signature: key.sign(digest).toString('base64'), SigningAlgorithm }]
}

const recipe = new KeyRecipe('@aws-sdk/client-kms')
const server = createServer((req, res) => void answer(req, res))
let restore: () => void

beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  restore = setEnvironment({
    AWS_ENDPOINT_URL_KMS: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    AWS_REGION: 'eu-central-1',
    AWS_ACCESS_KEY_ID: 'test',
    AWS_SECRET_ACCESS_KEY: 'test'
  })
})
afterAll(() => {
  restore()
  server.closeAllConnections()
  server.close()
})

describe('the recipe for AWS KMS, with the real client', () => {
  it('signs access tokens and resource tokens that their verifiers accept', async () =>
    expectSignedTokens(await recipe.start('alias/service', 'alias/resource')))

  // A slow service takes the client's time limit of 3 s twice.
  it.each(['denied', 'broken', 'slow'] as const)('answers 503 while the service is %s, and recovers', async (kind) => {
    const app = await recipe.start('alias/service', 'alias/resource')
    const fetch = await logInAsAlice(app)
    fault = kind
    const refused = await requestToken(fetch)
    fault = 'none'
    expect([refused.status, await refused.text()]).toEqual([503, 'Signer unavailable, try again'])
    await expectSignedTokens(app)
  })

  it('refuses to start with an unknown key, and with keys of the wrong kind', async () => {
    await expect(recipe.start('alias/other', 'alias/resource')).rejects.toThrow('no such key')
    await expect(recipe.start('alias/resource', 'alias/resource')).rejects.toThrow('received a key of P-256')
    await expect(recipe.start('alias/service', 'alias/service')).rejects.toThrow('received a key of secp256k1')
  })
})
