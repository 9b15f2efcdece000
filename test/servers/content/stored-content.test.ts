import { describe, expect, it } from '@jest/globals'
import { join } from 'node:path'
import { createFileObjectStore, openSpool } from '../../../servers/content/files.js'
import { createSqlContentStore } from '../../../servers/content/sql/sql-content-store.js'
import { discardUpload } from '../../../servers/content/sql/content-steps.js'
import { toFoundContent, UPLOAD_NEEDED, type ContentRow } from '../../../servers/content/sql/rows.js'
import { createStoredContent } from '../../../servers/content/sql/stored-content.js'
import { ServerError, type ServerErrorCode } from '../../../servers/http/server-error.js'
import { createEntry, createLargeBytes, createContent } from '../../support/servers/content-stores.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'

const large = createLargeBytes('large', 700_000)
const { cid, byteCount, leafHashes } = createContent(large)
const missing = { code: 'ERR_CONTENT_MISSING', status: 502 }

/** Creates content whose object consists of these bytes, in pieces of 64 KiB. */
function createContentWith(bytes: Uint8Array, changes: Record<string, unknown> = {}) {
  const row = { cid, byte_count: byteCount, leaf_hashes: leafHashes, object: 'name', ...changes }
  return createStoredContent(toFoundContent(row), {
    read: async function* () {
      for (let start = 0; start < bytes.length; start += 65_536) yield bytes.subarray(start, start + 65_536)
    }
  })
}

function flipByte(offset: number): Buffer {
  const bytes = Buffer.from(large)
  bytes[offset]! ^= 1
  return bytes
}

describe('content in an object', () => {
  it('is read completely if it is undamaged', async () => {
    expect(Buffer.compare(Buffer.from(await createContentWith(large).bytes()), large)).toBe(0)
  })

  it('fails before the first piece if that piece is damaged', async () => {
    await expect(createContentWith(flipByte(262_143)).pieces()).rejects.toMatchObject(missing)
    await expect(createContentWith(flipByte(262_143)).bytes()).rejects.toMatchObject(missing)
  })

  it('stops before a later piece that is damaged', async () => {
    let read = 0
    const reading = (async () => {
      for await (const piece of await createContentWith(flipByte(600_000)).pieces()) read += piece.length
    })()
    await expect(reading).rejects.toMatchObject(missing)
    expect(read).toBe(524_288)
  })

  it.each([0, 262_144, 699_999])('is missing if it ends after %d bytes', (size) =>
    expect(createContentWith(large.subarray(0, size)).bytes()).rejects.toMatchObject(missing)
  )

  it.each([
    ['hashes of other leaves', { leaf_hashes: Buffer.alloc(96) }],
    ['too few hashes', { leaf_hashes: Buffer.alloc(32) }],
    ['another length', { byte_count: byteCount - 1 }],
    ['no object', { object: null }]
  ])('is missing if its row has %s', (_what, change) =>
    expect(createContentWith(large, change).pieces()).rejects.toMatchObject(missing)
  )
})

describe('content whose object cannot be read', () =>
  it.each([
    ['ENOENT', missing],
    ['EIO', { code: 'ERR_STORAGE', status: 503 }]
  ])('is reported after the storage error %s as %j', async (code, failure) => {
    const row = { cid, byte_count: byteCount, leaf_hashes: leafHashes, object: 'name' }
    const read = (): never => {
      throw Object.assign(new Error(code), { code })
    }
    await expect(createStoredContent(toFoundContent(row), { read }).bytes()).rejects.toMatchObject(failure)
  }))

describe('content in a row', () =>
  it.each([
    ['small', 'small'],
    ['smalL', undefined]
  ])('is read from the bytes %s as %s', async (bytes, read) => {
    const { cid, leafHashes } = createContent('small')
    const row = { cid, byte_count: 5, leaf_hashes: leafHashes, object: null, bytes: Buffer.from(bytes) }
    const content = createStoredContent(toFoundContent(row), { read: () => [] as never })
    if (read === undefined) await expect(content.bytes()).rejects.toMatchObject(missing)
    else expect(Buffer.from(await content.bytes()).toString()).toBe(read)
  }))

describe('an uploaded object whose write fails', () => {
  it.each<[code: ServerErrorCode, discarded: unknown[]]>([
    // The write may have been committed, or be committed later.
    ['ERR_STORAGE', []],
    ['ERR_STORAGE_FULL', ['removed']],
    ['ERR_TAKEN_DOWN', ['takedown']]
  ])('is discarded after %s as %j', async (code, expected) => {
    const { path, remove } = temporaryFolder()
    const discarded: unknown[] = []
    const run = async (verb: unknown, request: { content?: ContentRow }, kind: unknown): Promise<unknown> => {
      if (verb === discardUpload) discarded.push(kind)
      else if (request.content?.object?.isUploaded === true) throw new ServerError(code)
      return UPLOAD_NEEDED
    }
    const objects = { ...createFileObjectStore(join(path, 'objects')), put: async () => undefined }
    // This engine runs two verbs.
    const engine = { run, databaseVerbs: {}, objects, spool: openSpool(join(path, 'spool')) } as never
    const write = createSqlContentStore(engine, {}).store.writeEntry(createEntry('k', large))
    await expect(write).rejects.toMatchObject({ code })
    expect(discarded).toEqual(expected)
    remove()
  })
})
