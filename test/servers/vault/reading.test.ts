import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { join } from 'node:path'
import { openContentStore } from '../../../servers/content/sql/open-sqlite-contents.js'
import { closeServices, servingPort } from '../../support/servers/server-client.js'
import { listOpenFiles } from '../../support/fixtures/open-files.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'
import { changeDatabase, fillVault, testVault, VaultUser, type TestVault } from '../../support/servers/vault-app.js'

const MEBIBYTE = 1_048_576

let vault: TestVault
let user: VaultUser
let port: number

beforeAll(async () => {
  vault = await testVault()
  port = await servingPort(vault.listener)
})
afterAll(async () => {
  closeServices()
  await vault.close()
})
beforeEach(async () => {
  user = await VaultUser.new(vault)
})

/** Writes entries under a key of the user. */
function fill(key: string, contents: readonly string[]): Promise<void> {
  const entries = contents.map((content) => [key, content] as const)
  return fillVault(vault, user.did, entries)
}

let filled = 0

/** Creates contents of 1 MiB that differ from all earlier ones. The first contains a character that JSON escapes. */
function createMebibytes(count: number): string[] {
  filled += 1
  return Array.from({ length: count }, (_, number) =>
    `${filled} ${number}${number === 0 ? '"' : ''}`.padEnd(MEBIBYTE, 'x')
  )
}

/** Opens a response of which nothing is read yet. */
function openAnswer(path: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const headers = { Authorization: user.authorization }
    httpRequest({ port, host: '127.0.0.1', path, agent: false, headers }, resolve).on('error', reject).end()
  })
}

async function readText(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of answer) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString()
}

const runSql = (text: string): void => changeDatabase(vault, text)

const readErrors = (): unknown[] => vault.log().filter(({ level }) => level === 'error')

describe('GET /:did/:key', () => {
  it.each([
    ['the largest that is buffered, with its length', MEBIBYTE, String(MEBIBYTE)],
    ['the smallest that is streamed, in chunks', MEBIBYTE + 1, undefined]
  ])('returns the exact array: %s', async (_what, size, length) => {
    const contents = ['"', 'é', 'x'.repeat(size - 14)]
    await fill('notes', contents)
    const expected = JSON.stringify(contents)
    expect(Buffer.byteLength(expected)).toBe(size)
    const { headers, text } = await user.read('notes').expect(200)
    expect(text === expected).toBe(true)
    expect(headers['content-length']).toBe(length)
    expect(headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-content-type-options': 'nosniff'
    })
    const head = await user.head('notes').expect(200)
    expect([head.headers['content-length'], head.headers.etag]).toEqual([length, headers.etag])
  })

  it('returns JSON escapes and characters of several bytes correctly across pieces', async () => {
    const contents = [`${'é'.repeat(131_071)}"${'💥'.repeat(70_000)}\n`, '\\'.repeat(300_000), '€'.repeat(200_000)]
    await fill('notes', contents)
    const answer = await openAnswer(`/${user.did}/notes`)
    expect((await readText(answer)) === JSON.stringify(contents)).toBe(true)
  })

  it('returns 2,000 entries of a key in order', async () => {
    const contents = Array.from({ length: 2_000 }, (_, number) => `entry ${(number * 7) % 2_000}`)
    await fill('notes', contents)
    expect((await user.read('notes').expect(200)).body).toEqual(contents)
    await user.put('notes', 'one').expect(200)
    await user.read('notes').expect(200, ['one'])
  })

  it('answers HEAD of an empty list with its length', async () => {
    expect((await user.head('nothing').expect(200)).headers['content-length']).toBe('2')
  })

  it('breaks the connection if an entry is deleted during the response', async () => {
    await fill('notes', createMebibytes(24))
    const answer = await openAnswer(`/${user.did}/notes`)
    await user.delete('notes').expect(200)
    await expect(readText(answer)).rejects.toThrow('aborted')
    await user.read('notes').expect(200, [])
  })

  it('breaks the connection if later content is damaged, and never shortens the list', async () => {
    await fill('notes', createMebibytes(24))
    const answer = await openAnswer(`/${user.did}/notes`)
    runSql('UPDATE contents SET leaf_hashes = zeroblob(length(leaf_hashes)) WHERE byte_count = 1048576')
    await expect(readText(answer)).rejects.toThrow('aborted')
  })

  it('returns the entries that it listed if one is added during the response', async () => {
    const contents = createMebibytes(12)
    await fill('notes', contents)
    const answer = await openAnswer(`/${user.did}/notes`)
    await user.post('notes', 'new').expect(201)
    expect(JSON.parse(await readText(answer))).toEqual(contents)
  })

  it('closes the files that it opened after HEAD of a long list', async () => {
    await fill('notes', createMebibytes(4))
    const isOpen = (): boolean => listOpenFiles(join(vault.folder, 'objects')).length > 0
    await user.head('notes').expect(200)
    // The wait is too short for the JavaScript garbage collector to close the files.
    for (let turns = 0; turns < 50 && isOpen(); turns += 1) await new Promise((resolve) => setTimeout(resolve, 10))
    expect(isOpen()).toBe(false)
  })

  it('logs no error when the client disconnects', async () => {
    await fill('notes', createMebibytes(8))
    const before = readErrors().length
    const answer = await openAnswer(`/${user.did}/notes`)
    answer.destroy()
    await user.read('else').expect(200, [])
    expect(readErrors()).toHaveLength(before)
  })

  it('answers 503 if the list is not the one that was written, and never returns a shorter one', async () => {
    await fill('notes', ['a', 'b'])
    runSql('DELETE FROM entries WHERE number = 2 AND owner = (SELECT max(id) FROM owners)')
    await user.read('notes').expect(503, /^Storage unavailable/)
  })
})

describe('an entry that is removed between the list and its content', () => {
  const folder = temporaryFolder()
  /** Runs after the list is read, and before its content. */
  let beforeContents: () => Promise<unknown> = () => Promise.resolve()
  let changingVault: TestVault
  let writer: VaultUser

  beforeAll(async () => {
    const opened = await openContentStore({ folder: folder.path, database: 'vault.db' })
    const readContents = async (cids: readonly string[]) => {
      await beforeContents()
      return opened.store.readContents(cids)
    }
    changingVault = await testVault({}, { contents: { ...opened, store: { ...opened.store, readContents } } })
    writer = await VaultUser.new(changingVault)
  })
  afterAll(async () => {
    await changingVault.close()
    folder.remove()
  })

  const paths = [
    ['a key', () => writer.read('notes'), (content: string) => [content]],
    [
      'the backup',
      () => writer.get('backup'),
      (content: string) => ({ entries: [expect.objectContaining({ key: 'notes', content })] })
    ]
  ] as const

  it.each(paths)('makes the response of %s list its entries again', async (_what, ask, expected) => {
    await writer.put('notes', 'before').expect(200)
    let count = 0
    beforeContents = async () => {
      count += 1
      if (count < 5) await writer.put('notes', `after ${count}`).expect(200)
    }
    expect((await ask().expect(200)).body).toMatchObject(expected('after 4'))
    expect(count).toBe(5)
  })

  it.each(paths.map(([what, ask]) => [what, ask] as const))(
    'makes %s answer 503 ERR_BUSY if it happens five times',
    async (_what, ask) => {
      await writer.put('notes', 'before').expect(200)
      let count = 0
      beforeContents = async () => {
        count += 1
        await writer.put('notes', `after ${count}`).expect(200)
      }
      const answer = await ask().set('Accept', 'application/problem+json').expect(503)
      expect([answer.body.code, answer.headers['retry-after'], count]).toEqual(['ERR_BUSY', '1', 5])
    }
  )
})

describe('the ETag of a key', () => {
  it('saves a client from reading again until the key changes', async () => {
    await user.post('notes', 'a').expect(201)
    const { etag } = (await user.read('notes').expect(200)).headers
    expect(etag).toMatch(/^"[\w-]{43}"$/)
    const compressed = etag!.replace(/"$/, '-br"')
    for (const value of [etag!, `"other", ${etag}`, '*', `W/${etag}`, compressed, `"other",W/${compressed}`]) {
      const answer = await user.read('notes').set('If-None-Match', value).expect(304)
      expect([answer.text, answer.headers.etag]).toEqual(['', etag])
      expect(answer.headers['cache-control']).toBe('no-cache, no-transform')
    }
    await user.read('notes').set('If-None-Match', '"other"').expect(200, ['a'])
    await user.read('notes').set('If-None-Match', etag!).set('Cache-Control', 'no-cache').expect(200, ['a'])
    await user.post('notes', 'b').expect(201)
    const { headers } = await user.read('notes').set('If-None-Match', etag!).expect(200, ['a', 'b'])
    expect(headers.etag).not.toBe(etag)
  })

  it('changes with the order of the entries', async () => {
    await fill('notes', ['a', 'b'])
    const { etag, body } = await user.read('notes').then(({ headers, body }) => ({ etag: headers.etag, body }))
    const { id } = (await user.post('notes', 'a')).body
    await user.put(`notes/${id}`, 'a').expect(200)
    const later = await user.read('notes').expect(200)
    expect([body, later.body]).toEqual([
      ['a', 'b'],
      ['b', 'a']
    ])
    expect(later.headers.etag).not.toBe(etag)
  })

  it('is computed without reading content', async () => {
    await user.post('notes', 'unread').expect(201)
    const { etag } = (await user.read('notes').expect(200)).headers
    runSql("DELETE FROM contents WHERE bytes = CAST('unread' AS BLOB)")
    await user.read('notes').set('If-None-Match', etag!).expect(304)
  })
})
