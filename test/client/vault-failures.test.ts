import { describe, expect, it } from '@jest/globals'
import { DidAuthClientError, VaultClient, type VaultClientOptions } from 'express-did-auth/client/vault'
import { answering, expectClientError as expectError, listenAt, problem, serverAt } from '../support/client-error.js'

describe('VaultClient at a vault that fails', () => {
  /** A session without a server. */
  const clientAt = (url: string, options: Partial<VaultClientOptions> = {}): VaultClient => {
    const auth = {
      session: { did: 'did:ethr:rsk:0x1' },
      fetch: (path: string, init?: RequestInit) => fetch(new URL(path, url), init)
    }
    return new VaultClient({ auth, ...options })
  }

  it.each([
    [
      'HTML',
      answering(200, '<html>Welcome</html>'),
      { code: 'PROTOCOL', message: expect.stringMatching(/^(GET|POST) http\S+: 200 text\/html/) }
    ],
    ['other JSON', answering(200, '{"a":[1]}'), { code: 'PROTOCOL' }],
    ['a list of numbers', answering(200, '[1]'), { code: 'PROTOCOL' }],
    ['404', answering(404, 'Not found'), { code: 'PROTOCOL', status: 404 }],
    ['502', problem(502, 'ERR_CONTENT_MISSING'), { code: 'MISSING' }],
    ['403', problem(403, 'ERR_CROSS_ORIGIN'), { code: 'CROSS_ORIGIN', status: 403 }],
    ['429', problem(429, 'ERR_TOO_MANY_REQUESTS'), { code: 'RATE_LIMITED', retryAfterSeconds: 7 }],
    ['503', problem(503, 'ERR_STORAGE'), { code: 'UNAVAILABLE', retryAfterSeconds: 7 }]
  ])('that answers %s says so', async (_what, listener, fields) => {
    const client = clientAt(await serverAt(listener))
    await expectError(client.get('a'), fields)
    await expectError(client.add('a', 'b'), fields)
    await expectError(client.keys(), fields)
    await expectError(client.storage(), fields)
    await expectError(client.backup(), fields)
  })

  it('that is gone or slow is unavailable; a signal ends the wait with its reason', async () => {
    const slow = await serverAt(() => undefined)
    const closed = await listenAt(() => undefined)
    await closed.close()
    await expectError(clientAt(closed.url).add('a', 'b'), { code: 'UNAVAILABLE', retryable: true })
    await expectError(clientAt(slow, { timeoutSeconds: 0.05 }).get('a'), { code: 'UNAVAILABLE' })
    const reason = new Error('enough')
    await expect(clientAt(slow).get('a', undefined, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
    const controller = new AbortController()
    const waiting = expect(clientAt(slow).add('a', 'b', { signal: controller.signal })).rejects.toBe(reason)
    controller.abort(reason)
    await waiting
  })

  it.each(['A'.repeat(32), new Uint8Array(31), new Uint16Array(32), new ArrayBuffer(32), Array(32).fill(7), undefined])(
    'refuses a key that would encrypt with another: %#',
    (key) => {
      expect(() => clientAt('http://127.0.0.1:1', { encrypt: { key: key as Uint8Array } })).toThrow(
        new TypeError('encrypt.key: give a Uint8Array of 32 bytes')
      )
    }
  )

  it('writes nothing of a user in whose place another one logged in while it was encrypted', async () => {
    const auth = { session: { did: 'did:ethr:rsk:0x1' }, fetch: () => Promise.reject(new Error('a request')) }
    const client = new VaultClient({ auth, encrypt: { key: new Uint8Array(32) } })
    const writing = expectError(client.add('a', 'b'), { code: 'NOT_SIGNED_IN' })
    auth.session = { did: 'did:ethr:rsk:0x2' }
    await writing
  })

  it('throws one class, whose code tells the compiler that a conflict has an etag', async () => {
    const error = await clientAt(await serverAt(answering(412, '', { ETag: '"1"' })))
      .add('a', 'b')
      .catch((thrown: unknown) => thrown)
    if (!(error instanceof DidAuthClientError && error.code === 'CONFLICT')) throw error
    expect([error.status, error.retryable, error.etag]).toEqual([412, false, '"1"'])
  })
})
