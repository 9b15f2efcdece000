import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { createWallet, testVault, VaultUser, type TestVault } from '../../support/servers/vault-app.js'

// CIDs as `ipfs add --cid-version=1` computes them.
const HELLO = 'bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq'
const EMPTY = 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'
/** CID of 1,048,576 times `a`, which is a node with four leaves. */
const MEBIBYTE = 'bafybeigak7tvm4bb2et73p52j33zy2v6hgy46nijsjflrqih4keafnvdra'

let vault: TestVault
let user: VaultUser
let otherUser: VaultUser

beforeAll(async () => {
  vault = await testVault()
})
afterAll(() => vault.close())
beforeEach(async () => {
  user = await VaultUser.new(vault)
  otherUser = await VaultUser.new(vault)
})

/** Posts content under a key of the user, and returns its ID. */
async function postContent(key: string, content: string): Promise<string> {
  return (await user.post(key, content).expect(201)).body.id
}

describe('POST /:key', () => {
  it.each([
    ['five bytes', 'hello', HELLO],
    ['an empty text', '', EMPTY],
    ['1 MiB', 'a'.repeat(1_048_576), MEBIBYTE]
  ])('answers 201 with the CID that an IPFS node would compute: %s', async (_what, content, id) => {
    const answer = await user.post('notes', content).expect(201)
    expect(answer.text).toBe(`{"id":"${id}"}`)
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
    expect(answer.headers).not.toHaveProperty('pin-status')
    await user.read('notes').expect(200, [content])
  })

  it('answers a duplicate with 201 and the same ID, and changes neither usage nor order', async () => {
    const id = await postContent('notes', 'a')
    await user.post('notes', 'b').expect(201)
    await user.post('notes', 'a').expect(201, { id })
    await user.read('notes').expect(200, ['a', 'b'])
    expect((await user.get('storage')).body).toMatchObject({ used: 2, usedEntries: 2 })
  })
})

describe('PUT /:key', () =>
  it('replaces all content under the key', async () => {
    for (const content of ['a', 'b', 'c']) await user.post('notes', content).expect(201)
    await user.post('else', 'a').expect(201)
    await user.put('notes', 'hello').expect(200, { id: HELLO })
    await user.read('notes').expect(200, ['hello'])
    await user.read('else').expect(200, ['a'])
  }))

describe('PUT /:key/:id', () => {
  it('replaces one entry, which moves to the end of the list', async () => {
    const id = await postContent('notes', 'a')
    await user.post('notes', 'b').expect(201)
    await user.put(`notes/${id}`, 'hello').expect(200, { id: HELLO })
    await user.read('notes').expect(200, ['b', 'hello'])
  })

  it('adds an entry if the ID is not under the key, whatever the ID is', async () => {
    await user.post('notes', 'a').expect(201)
    const elsewhere = await postContent('else', 'b')
    let count = 0
    for (const id of [
      EMPTY,
      elsewhere,
      'no-cid',
      '%F0%9F%92%A5',
      HELLO.toUpperCase(),
      'x'.repeat(8_000),
      '%2F',
      '%00'
    ]) {
      await user.put(`notes/${id}`, `new ${(count += 1)}`).expect(200)
    }
    const { body } = await user.read('notes')
    expect(body).toEqual(['a', 'new 1', 'new 2', 'new 3', 'new 4', 'new 5', 'new 6', 'new 7', 'new 8'])
    await user.read('else').expect(200, ['b'])
  })
})

describe('DELETE /:key', () => {
  it('deletes all content under the key, with an empty response', async () => {
    for (const content of ['a', 'b', 'c'.repeat(1_000_000)]) await user.post('notes', content).expect(201)
    await user.post('else', 'd').expect(201)
    const answer = await user.delete('notes').expect(200)
    expect([answer.text, answer.headers['content-length']]).toEqual(['', '0'])
    await user.read('notes').expect(200, [])
    await user.read('else').expect(200, ['d'])
  })

  it('answers 200 if the key has no entries', () => user.delete('notes').expect(200, ''))
})

describe('DELETE /:key/:id', () => {
  it('deletes one entry', async () => {
    await user.post('notes', 'a').expect(201)
    const id = await postContent('notes', 'b')
    await user.post('else', 'b').expect(201)
    const answer = await user.delete(`notes/${id}`).expect(200)
    expect([answer.text, answer.headers['content-length']]).toEqual(['', '0'])
    await user.read('notes').expect(200, ['a'])
    await user.read('else').expect(200, ['b'])
  })

  it.each([HELLO, 'no-cid', '%00', '%2e%2e%2fnotes', '*', '%25'])(
    'answers 200 if the entry %s does not exist',
    async (id) => {
      await user.post('notes', 'a').expect(201)
      await user.delete(`notes/${id}`).expect(200, '')
      await user.read('notes').expect(200, ['a'])
    }
  )
})

describe('a user of the vault', () => {
  it('cannot change entries of another user, with any key and ID', async () => {
    const id = await postContent('notes', 'mine')
    await otherUser.put(`notes/${id}`, 'theirs').expect(200)
    await otherUser.put('notes', 'theirs').expect(200)
    await otherUser.delete(`notes/${id}`).expect(200)
    await otherUser.delete('notes').expect(200)
    await otherUser.post(encodeURIComponent(`${user.did}/notes`), 'theirs').expect(201)
    await user.read('notes').expect(200, ['mine'])
    expect((await user.get('keys')).body).toEqual({ keys: [{ key: 'notes', entries: [{ id, size: 4 }] }] })
  })

  it('is the same in any spelling of the DID', async () => {
    const wallet = createWallet()
    const { did, address } = wallet
    const spelling = did.replace(/0x.*/, address)
    expect(spelling).not.toBe(did)
    const quiet = await VaultUser.logIn(vault.listener, wallet)
    const loud = await VaultUser.logIn(vault.listener, wallet, spelling)
    await quiet.post('notes', 'a').expect(201)
    await loud.post('notes', 'b').expect(201)
    for (const spelledDid of [did, spelling, did.replace(/0x.*/, address.toUpperCase().replace('X', 'x'))]) {
      await request(vault.listener).get(`/${spelledDid}/notes`).expect(200, ['a', 'b'])
    }
    expect((await loud.get('storage')).body).toMatchObject({ usedEntries: 2 })
    await loud.delete('notes').expect(200)
    await quiet.read('notes').expect(200, [])
  })
})

describe('conditional writes', () => {
  const readEtag = async (key: string): Promise<string> => (await user.read(key)).headers.etag ?? ''

  it('return the ETag of the next read', async () => {
    const { id } = (await user.post('k', 'a')).body
    for (const write of [
      () => user.post('k', 'b'),
      () => user.post('k', 'b'),
      () => user.put(`k/${id}`, 'c'),
      () => user.delete(`k/${id}`),
      () => user.put('k', 'd'),
      () => user.delete('k')
    ]) {
      const { headers } = await write()
      expect(headers.etag).toMatch(/^"[\w-]+"$/)
      expect(headers.etag).toBe(await readEtag('k'))
    }
  })

  it('succeed with the current ETag, and are answered 412 with the new one afterwards', async () => {
    await user.post('k', 'a').expect(201)
    for (const write of [
      () => user.post('k', 'b'),
      () => user.put('k', 'c'),
      () => user.put('k/id', 'd'),
      () => user.delete(`k/${EMPTY}`),
      () => user.delete('k')
    ]) {
      const before = await readEtag('k')
      const { status, headers } = await write().set('If-Match', `"other", ${before}`)
      expect([status < 300, headers.etag]).toEqual([true, await readEtag('k')])
      if (headers.etag === before) continue
      const refused = await write().set('If-Match', before)
      expect([refused.status, refused.text]).toEqual([412, 'Precondition failed'])
      expect(refused.headers.etag).toBe(headers.etag)
    }
    await user.read('k').expect(200, [])
  })

  const compressed = ['gzip', 'br', 'zstd', 'deflate'].map(
    (suffix) => (etag: string) => etag.replace(/"$/, `-${suffix}"`)
  )
  it.each([(etag: string) => `W/${etag}`, ...compressed, (etag: string) => `"other", W/${compressed[0]!(etag)}`])(
    'succeed with the ETag of an answer that a proxy compressed (%#)',
    async (change) => {
      await user.post('k', 'a').expect(201)
      const etag = await readEtag('k')
      await user.put('k', 'b').set('If-Match', change(etag)).expect(200).expect('Cache-Control', 'no-transform')
      await user.put('k', 'c').set('If-Match', change(etag)).expect(412)
    }
  )

  it.each([
    ['If-Match', 'unquoted'],
    ['If-Match', '*, "a"'],
    ['If-Match', ''],
    ['If-None-Match', '"a"']
  ])('are refused with 400 for the ambiguous header %s: %s', async (name, value) => {
    await user.post('k', 'a').expect(201)
    const { status, text } = await user.put('k', 'b').set(name, value)
    expect([status, text.startsWith('Invalid request: ')]).toEqual([400, true])
    await user.read('k').expect(200, ['a'])
  })
})

const VERBS = [
  ['post', 'notes'],
  ['put', 'notes'],
  ['put', 'notes/id']
] as const

/** Sends a body, byte for byte, to each route that accepts content. */
async function sendByAll(body: string | Buffer, type = 'application/json'): Promise<[number, string][]> {
  const answers: [number, string][] = []
  for (const [verb, path] of VERBS) {
    const { status, text } = await request(vault.listener)
      [verb](`/${path}`)
      .set('Authorization', user.authorization)
      .set('Content-Type', type)
      // supertest would otherwise serialize the bytes as JSON.
      .serialize((value: unknown) => value as string)
      .send(body)
    answers.push([status, text])
  }
  return answers
}

describe('content', () => {
  it.each([
    ['the empty string', ''],
    ['every control character', Array.from({ length: 32 }, (_, code) => String.fromCharCode(code)).join('')],
    ['a BOM at the start', '\ufefftext'],
    ['quotes and backslashes', '"\\"\\\\'],
    ['line ends', 'a\r\nb\rc\nd\u2028e\u2029f'],
    ['an emoji', '💥👩‍👩‍👧‍👦'],
    ['256 KiB and one byte', 'b'.repeat(262_145)]
  ])('is returned exactly: %s', async (_what, content) => {
    await user.post('notes', content).expect(201)
    expect((await user.read('notes').expect(200)).body).toEqual([content])
    await user.put('notes', `${content}2`).expect(200)
    expect((await user.read('notes').expect(200)).body).toEqual([`${content}2`])
  })

  // See test/servers/content/read-body.test.ts for the parsing of bodies.
  it.each([
    ['whose content is a number', '{"content":7}', 'Invalid content'],
    ['that is not JSON', '{"content":"a",}', 'Malformed JSON'],
    ['that is not UTF-8', Buffer.from([...Buffer.from('{"content":"'), 0xff, 0x22, 0x7d]), 'Malformed JSON']
  ])('is refused with 400 in a body %s, and changes nothing', async (_what, body, text) => {
    await user.post('notes', 'kept').expect(201)
    expect(await sendByAll(body)).toEqual(Array(3).fill([400, text]))
    await user.read('notes').expect(200, ['kept'])
  })

  it('may have 1,048,576 bytes, and not one more', async () => {
    const content = '\u{1f4a5}'.repeat(262_144)
    await user.post('notes', content).expect(201)
    expect((await user.read('notes').expect(200)).body).toEqual([content])
    const tooLarge = JSON.stringify({ content: `${content}a` })
    expect(await sendByAll(tooLarge)).toEqual(Array(3).fill([413, 'Content too large: at most 1048576 bytes']))
    expect((await user.get('storage')).body).toMatchObject({ used: 1_048_576, usedEntries: 1 })
  })

  it('is limited by VAULT_MAX_CONTENT_BYTES', async () => {
    const small = await testVault({ VAULT_MAX_CONTENT_BYTES: '4' }, { folder: vault.folder })
    const limitedUser = await VaultUser.new(small)
    await limitedUser.post('notes', '💥').expect(201)
    await limitedUser.post('notes', '12345').expect(413, 'Content too large: at most 4 bytes')
    await small.close()
  })
})
