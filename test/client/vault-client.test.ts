import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import { DidAuthClient } from 'express-did-auth-client'
import { DidAuthClientError, VaultClient, type VaultClientOptions } from 'express-did-auth-client/vault'
import { afterTest } from '../support/fixtures/after-test.js'
import { cidOf } from '../../servers/content/unixfs-blocks.js'
import {
  startAnsweringServer,
  expectClientError as expectError,
  type HttpAddress,
  listenAt,
  startRefusingServer,
  startServer
} from '../support/fixtures/client-error.js'
import { holdTime } from '../support/fixtures/hold-time.js'
import { createWallet, testVault, type TestVault } from '../support/servers/vault-app.js'

const key = Uint8Array.from({ length: 32 }, (_, index) => index)

let vault: TestVault
let address: HttpAddress

beforeAll(async () => {
  vault = await testVault({ VAULT_MAX_BYTES_PER_DID: '2000000' })
  address = await listenAt(vault.listener)
})

afterAll(async () => {
  await address.close()
  await vault.close()
})

beforeEach(() => void holdTime())

/** Returns a new, logged-in user. */
async function startUser(options: Partial<VaultClientOptions> = {}, url = address.url) {
  const { address: account, personalSign, did } = createWallet()
  const wallet = { address: account, signMessage: personalSign }
  const auth = new DidAuthClient({ url, wallet, domain: 'vault.example' })
  await auth.logIn()
  return { auth, did, client: new VaultClient({ auth, ...options }) }
}

describe('VaultClient behind a proxy that compresses answers', () => {
  it.each(['W/"$1"', '"$1-gzip"', 'W/"$1-zstd"'])('returns and compares ETags without the form %s', async (form) => {
    const compress: typeof fetch = async (input, init) => {
      const answer = await fetch(input, init)
      const etag = answer.headers.get('etag')
      return etag === null ? answer : withHeader(answer, etag.replace(/^"(.*)"$/, form))
    }
    const { client } = await startUser({ fetch: compress })
    const { client: plain } = await startUser()
    const added = await client.add('notes', 'a', { ifMatch: (await client.get('notes')).etag })
    expect(added.etag).toBe((await plain.get('notes', client.did)).etag)
    const { etag } = await client.replace('notes', 'b', { ifMatch: added.etag })
    await expectError(client.delete('notes', { ifMatch: added.etag }), { code: 'CONFLICT', etag })
  })
})

function withHeader(answer: Response, etag: string): Response {
  const headers = new Headers(answer.headers)
  headers.set('etag', etag)
  return new Response(answer.body, { status: answer.status, headers })
}

describe.each([
  ['in plain text', {}],
  ['encrypted', { encrypt: { key } }]
])('VaultClient %s', (_name, options) => {
  it('adds, reads, replaces and deletes entries', async () => {
    const { client, did } = await startUser(options)
    expect(await client.get('notes')).toEqual({ contents: [], etag: expect.stringMatching(/^".+"$/) })
    const first = await client.add('notes', 'Buy oak 🌳')
    const second = await client.add('notes', '')
    expect([first.isPinned, second.isPinned]).toEqual([true, true])
    expect(await client.get('notes')).toEqual({ contents: ['Buy oak 🌳', ''], etag: second.etag })
    const replaced = await client.replace('notes', 'Buy two', { id: first.id })
    expect((await client.get('notes', did)).contents).toEqual(['', 'Buy two'])
    expect(await client.delete('notes', { id: second.id })).toEqual({ etag: expect.any(String), isPinned: true })
    expect((await client.get('notes')).contents).toEqual(['Buy two'])
    expect((await client.keys())[0]).toEqual({ key: 'notes', entries: [{ id: replaced.id, size: expect.any(Number) }] })
    await client.replace('notes', 'All new')
    expect((await client.get('notes')).contents).toEqual(['All new'])
    await client.delete('notes')
    expect(await client.keys()).toEqual([])
  })

  it('changes no other key behind a proxy that decodes %2F', async () => {
    const proxy = await listenAt((req, res) => {
      req.url = req.url?.replaceAll('%2F', '/')
      vault.listener(req, res)
    })
    afterTest(() => proxy.close())
    const { client } = await startUser(options, proxy.url)
    await client.add('a', 'kept')
    for (const write of [() => client.replace('a/b', 'lost'), () => client.delete('a/b')]) {
      await expectError(write(), { code: 'NAME', status: 400, serverCode: 'ERR_KEY' })
    }
    expect((await client.get('a')).contents).toEqual(['kept'])
  })

  it('writes only if the list is the one that was read', async () => {
    const { client } = await startUser(options)
    const { etag } = await client.add('notes', 'mine', { ifNoneMatch: '*' })
    const now = await client.add('notes', 'of another device', { ifMatch: etag })
    for (const write of [
      () => client.add('notes', 'a', { ifMatch: etag }),
      () => client.replace('notes', 'a', { ifMatch: etag }),
      () => client.delete('notes', { ifMatch: etag }),
      () => client.add('notes', 'a', { ifNoneMatch: '*' })
    ]) {
      await expectError(write(), { code: 'CONFLICT', status: 412, etag: now.etag })
    }
    expect((await client.get('notes')).contents).toEqual(['mine', 'of another device'])
    expect(await client.delete('notes', { ifMatch: '*' })).toMatchObject({ isPinned: true })
  })

  it.each(['a b', 'a/b', 'ä🌳', '%2F', '?#', 'keys of mine', "it's", 'did:ethr:x'])(
    'accepts the key %j',
    async (name) => {
      const { client } = await startUser(options)
      await client.add(name, name)
      expect((await client.get(name)).contents).toEqual([name])
      expect((await client.keys()).map((entry) => entry.key)).toEqual([name])
      await client.delete(name)
    }
  )

  it('reports what is stored, and exports all of it', async () => {
    const { client, did } = await startUser(options)
    const { id } = await client.add('a', 'one')
    await client.add('b', 'two')
    expect(await client.backup()).toMatchObject({
      did,
      entries: [{ key: 'a', id, content: 'one' }, { content: 'two' }]
    })
    const { used, available, usedEntries, availableEntries } = await client.storage()
    expect([used + available, usedEntries, availableEntries]).toEqual([2_000_000, 2, 9_998])
  })

  it('explains what is wrong with a content or a key', async () => {
    const { client } = await startUser(options)
    await expectError(client.add('notes', 'a'.repeat(1_200_000)), { code: 'TOO_LARGE', status: 413 })
    await client.add('notes', 'a'.repeat(700_000))
    await client.add('notes', 'b'.repeat(700_000))
    await expectError(client.add('notes', 'c'.repeat(700_000)), { code: 'FULL', status: 507 })
    for (const name of [
      '',
      '.',
      '..',
      'a\u0000b',
      'auth',
      'LOGOUT',
      'refresh-token',
      'Request-Signup',
      'a'.repeat(513),
      '\ud800'
    ]) {
      await expectError(client.add(name, 'a'), { code: 'NAME' })
    }
    // A POST with this name would have ended the session.
    const taken = await client.replace('notes', 'taken down')
    await vault.store.takeDown(taken.id, 'test', 1)
    if (!('encrypt' in options))
      await expectError(client.add('notes', 'taken down'), { code: 'TAKEN_DOWN', status: 451 })
  })
})

describe('VaultClient', () => {
  it('returns the CID of the content, and reads without a session, also entries of others', async () => {
    const { client, did } = await startUser()
    const { id } = await client.add('notes', 'Hello')
    expect(id).toBe(cidOf(Buffer.from('Hello')))
    const visitor = new VaultClient({ auth: new DidAuthClient({ url: address.url }) })
    expect((await visitor.get('notes', did)).contents).toEqual(['Hello'])
    await expectError(visitor.get('notes'), { code: 'NOT_SIGNED_IN' })
    await expectError(visitor.add('notes', 'a'), { code: 'NOT_SIGNED_IN', status: 401 })
    await expectError(visitor.keys(), { code: 'NOT_SIGNED_IN', status: 401 })
  })

  it('adds nothing if the same content is sent again', async () => {
    const { client } = await startUser()
    const written = await client.add('notes', 'Hello')
    expect(await client.add('notes', 'Hello')).toEqual(written)
  })

  it.each(['global', 'client'] as const)(
    'passes absolute URLs and the token to the %s fetch of the caller',
    async (which) => {
      const urls: unknown[] = []
      const { auth } = await startUser()
      const fetch: NonNullable<VaultClientOptions['fetch']> = (url, init) => {
        urls.push([url, new Headers(init?.headers).get('authorization')?.slice(0, 10)])
        return which === 'global' ? globalThis.fetch(url, init) : auth.fetch(url, init)
      }
      await new VaultClient({ auth, fetch }).add('a/b', 'Hello')
      expect(urls).toEqual([[`${auth.url}/a%2Fb`, 'DIDAuth ey']])
    }
  )
})

describe('VaultClient.restore', () => {
  it('writes missing entries in order after existing ones, and can be repeated', async () => {
    const { client } = await startUser({ encrypt: { key } })
    for (const content of ['one', 'two', 'three']) await client.add('notes', content)
    await client.add('other', 'four')
    const backup = await client.backup({ raw: true })
    expect(backup.entries.map(({ key, content }) => [key, /^eda1\./.test(content)])).toEqual([
      ...['notes', 'notes', 'notes', 'other'].map((name) => [name, true])
    ])
    expect(await client.restore(backup)).toBe(0)
    await client.delete('notes')
    await client.add('notes', 'newer')
    expect(await client.restore(backup)).toBe(3)
    expect((await client.get('notes')).contents).toEqual(['newer', 'one', 'two', 'three'])
    expect(await client.restore(backup)).toBe(0)
    await client.delete('notes', { id: backup.entries[1]!.id })
    expect(await client.restore(backup)).toBe(1)
    expect((await client.get('notes')).contents).toEqual(['newer', 'one', 'three', 'two'])
  })

  // Cause: a keyring that was created in the meantime got a second entry, and could no longer be opened.
  it('writes the keyring first, and nothing if another keyring was created in the meantime', async () => {
    const { auth, client } = await startUser()
    await client.add('notes', 'one')
    await client.replace('did-auth.keyring', 'mine')
    const backup = await client.backup({ raw: true })
    for (const { key } of await client.keys()) await client.delete(key)
    let isFirst = true
    const fetch: VaultClientOptions['fetch'] = async (path, init) => {
      if (init?.method === 'POST' && isFirst) {
        isFirst = false
        await client.replace('did-auth.keyring', 'of another device')
      }
      return auth.fetch(path, init)
    }
    await expectError(new VaultClient({ auth, fetch }).restore(backup), { code: 'KEYRING_EXISTS' })
    expect((await client.keys()).map(({ key, entries }) => [key, entries.length])).toEqual([['did-auth.keyring', 1]])
  })

  it('refuses a decrypted backup, which it would publish, and one of another DID', async () => {
    const { client } = await startUser({ encrypt: { key } })
    await client.add('notes', 'secret')
    await expect(client.restore(await client.backup())).rejects.toThrow('expected one of backup({ raw: true })')
    const other = await startUser()
    await expectError(other.client.restore(await client.backup({ raw: true })), { code: 'KEY' })
    expect(await other.client.keys()).toEqual([])
  })
})

describe('VaultClient with encryption', () => {
  it('stores eda1.<iv>.<ciphertext>, bound to the canonical DID, the key and the version', async () => {
    const { client, did, auth } = await startUser({ encrypt: { key } })
    const { id } = await client.add('notes', 'secret')
    const [stored = ''] = (await new VaultClient({ auth }).get('notes')).contents
    expect(cidOf(Buffer.from(stored))).toBe(id)
    const [version, iv = '', sealed = ''] = stored.split('.')
    expect([version, Buffer.from(iv, 'base64url').length]).toEqual(['eda1', 12])
    const imported = await crypto.subtle.importKey('raw', key, 'AES-GCM', false, ['decrypt'])
    const additionalData = Buffer.from(`${did}\nnotes\neda1`)
    const algorithm = { name: 'AES-GCM', iv: Buffer.from(iv, 'base64url'), additionalData }
    const content = await crypto.subtle.decrypt(algorithm, imported, Buffer.from(sealed, 'base64url'))
    expect(Buffer.from(content).toString()).toBe('secret')
  })

  it('never sends the key or the plain text', async () => {
    const sent: string[] = []
    const { auth } = await startUser()
    const fetch: VaultClientOptions['fetch'] = (path, init) => {
      sent.push(`${path} ${JSON.stringify(init)}`)
      return auth.fetch(path, init)
    }
    const client = new VaultClient({ auth, encrypt: { key }, fetch })
    await client.add('notes', 'the treasure')
    await client.get('notes')
    await client.backup()
    const all = sent.join('\n')
    expect(sent).toHaveLength(3)
    for (const form of [
      'the treasure',
      ...(['hex', 'base64', 'base64url'] as const).map((as) => Buffer.from(key).toString(as))
    ]) {
      expect(all).not.toContain(form)
    }
  })

  it('refuses ciphertext of another secret, key or user, changed ciphertext, and plain text', async () => {
    const { client, auth } = await startUser({ encrypt: { key } })
    const plain = new VaultClient({ auth })
    await client.add('notes', 'secret')
    const [stored = ''] = (await plain.get('notes')).contents
    await expectError(new VaultClient({ auth, encrypt: { key: new Uint8Array(32) } }).get('notes'), { code: 'KEY' })
    await plain.add('moved', stored)
    await expectError(client.get('moved'), { code: 'KEY' })
    const other = await startUser({ encrypt: { key } })
    await new VaultClient({ auth: other.auth }).add('notes', stored)
    await expectError(other.client.get('notes'), { code: 'KEY' })
    for (const [content, code] of [
      [stored.replace(/.$/, (last) => (last === 'A' ? 'Q' : 'A')), 'KEY'],
      [stored.slice(0, -8), 'KEY'],
      ['eda1.AAAA.AAAA', 'KEY'],
      ['eda1..', 'KEY'],
      ['Hello', 'NOT_ENCRYPTED'],
      ['eda2.AAAA.AAAA', 'NOT_ENCRYPTED'],
      [`${stored}.a`, 'NOT_ENCRYPTED'],
      ['eda1.AA+A.AAAA', 'NOT_ENCRYPTED'],
      ['', 'NOT_ENCRYPTED']
    ] as const) {
      await plain.replace('spoilt', content)
      await expectError(client.get('spoilt'), { code })
    }
    await expectError(client.backup(), { code: 'NOT_ENCRYPTED' })
    await expect(client.add('notes', 'half \ud800')).rejects.toThrow(TypeError)
  })
})

describe('VaultClient at a failing vault', () => {
  /** Returns a client with a session but without a server. */
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
      startAnsweringServer(200, '<html>Welcome</html>'),
      { code: 'PROTOCOL', message: expect.stringMatching(/^(GET|POST) http\S+: 200 text\/html/) }
    ],
    ['other JSON', startAnsweringServer(200, '{"a":[1]}'), { code: 'PROTOCOL' }],
    ['a list of numbers', startAnsweringServer(200, '[1]'), { code: 'PROTOCOL' }],
    ['404', startAnsweringServer(404, 'Not found'), { code: 'PROTOCOL', status: 404 }],
    ['502', startRefusingServer(502, 'ERR_CONTENT_MISSING'), { code: 'MISSING' }],
    ['403', startRefusingServer(403, 'ERR_CROSS_ORIGIN'), { code: 'CROSS_ORIGIN', status: 403 }],
    ['429', startRefusingServer(429, 'ERR_TOO_MANY_REQUESTS'), { code: 'RATE_LIMITED', retryAfterSeconds: 7 }],
    ['503', startRefusingServer(503, 'ERR_STORAGE'), { code: 'UNAVAILABLE', retryAfterSeconds: 7 }]
  ])('reports a response of %s', async (_what, listener, fields) => {
    const client = clientAt(await startServer(listener))
    await expectError(client.get('a'), fields)
    await expectError(client.add('a', 'b'), fields)
    await expectError(client.keys(), fields)
    await expectError(client.storage(), fields)
    await expectError(client.backup(), fields)
  })

  it("reports an unreachable or slow vault as unavailable, and rejects with the signal's reason", async () => {
    const slow = await startServer(() => undefined)
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
    'refuses a key name that could be confused with another: %#',
    (key) => {
      expect(() => clientAt('http://127.0.0.1:1', { encrypt: { key: key as Uint8Array } })).toThrow(
        new TypeError('encrypt.key: expected a Uint8Array of 32 bytes')
      )
    }
  )

  it('writes nothing if another user logged in during the encryption', async () => {
    const auth = { session: { did: 'did:ethr:rsk:0x1' }, fetch: () => Promise.reject(new Error('a request')) }
    const client = new VaultClient({ auth, encrypt: { key } })
    const writing = expectError(client.add('a', 'b'), { code: 'NOT_SIGNED_IN' })
    auth.session = { did: 'did:ethr:rsk:0x2' }
    await writing
  })

  it('throws one class, whose code tells TypeScript that a conflict has an etag', async () => {
    const error = await clientAt(await startServer(startAnsweringServer(412, '', { ETag: '"1"' })))
      .add('a', 'b')
      .catch((thrown: unknown) => thrown)
    if (!(error instanceof DidAuthClientError && error.code === 'CONFLICT')) throw error
    expect([error.status, error.retryable, error.etag]).toEqual([412, false, '"1"'])
  })
})
