import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { ObjectStore } from '../../servers/content/content-store.js'
import { createLargeBytes, createObjectName, listObjectNames } from '../support/servers/content-stores.js'
import { temporaryFolder } from '../support/fixtures/store-folder.js'

/** Tests the contract of every ObjectStore. Each test gets an empty store and a folder for its own files. */
export function objectStoreContract(makeStore: (folder: string) => ObjectStore): void {
  let folder: string
  let remove: () => void
  let objects: ObjectStore
  beforeEach(() => {
    ;({ path: folder, remove } = temporaryFolder())
    objects = makeStore(join(folder, 'objects'))
  })
  afterEach(() => remove())

  const put = async (name: string, bytes: Uint8Array): Promise<void> => {
    const file = join(folder, 'body')
    writeFileSync(file, bytes)
    await objects.put(name, file)
  }
  const readPieces = async (name: string): Promise<Uint8Array[]> => {
    const pieces: Uint8Array[] = []
    for await (const piece of objects.read(name)) pieces.push(piece)
    return pieces
  }

  describe('object', () => {
    it.each([0, 1, 262_144, 600_000, 8_388_608])(
      'is read as stored if it has %d bytes, in pieces aligned to 256 KiB',
      async (byteCount) => {
        const bytes = createLargeBytes('x', byteCount)
        await put('cid.12ab', bytes)
        const pieces = await readPieces('cid.12ab')
        let start = 0
        for (const { length } of pieces) {
          expect((start % 262_144) + length).toBeLessThanOrEqual(262_144)
          start += length
        }
        expect(Buffer.concat(pieces).equals(bytes)).toBe(true)
      }
    )

    it('is stored from a file, which its owner keeps', async () => {
      await put('first', createLargeBytes('x'))
      await objects.delete('first')
      expect(readFileSync(join(folder, 'body')).equals(createLargeBytes('x'))).toBe(true)
    })

    it('is not created if the file is missing', async () => {
      await expect(objects.put('first', join(folder, 'none'))).rejects.toMatchObject({ code: 'ENOENT' })
      expect(await listObjectNames(objects)).toEqual([])
    })

    it('fails with ENOENT before it is stored and after it is deleted', async () => {
      await expect(readPieces('first')).rejects.toMatchObject({ code: 'ENOENT' })
      await put('first', createLargeBytes('x'))
      await objects.delete('first')
      await expect(readPieces('first')).rejects.toMatchObject({ code: 'ENOENT' })
    })

    it('is read completely if it is deleted in the meantime, unless that breaks readers', async () => {
      if (objects.breaksReaders === true) return
      const bytes = createLargeBytes('x', 8_000_000)
      await put('first', bytes)
      const pieces: Uint8Array[] = []
      for await (const piece of objects.read('first')) {
        if (pieces.length === 0) await objects.delete('first')
        pieces.push(piece)
      }
      expect(Buffer.concat(pieces).equals(bytes)).toBe(true)
    })

    it('can be read partially, and by several readers at once', async () => {
      const bytes = createLargeBytes('x', 1_000_000)
      await put('first', bytes)
      for await (const piece of objects.read('first')) {
        expect(piece.length).toBeGreaterThan(0)
        break
      }
      const all = await Promise.all([1, 2, 3].map(() => readPieces('first')))
      expect(all.map((pieces) => Buffer.concat(pieces).equals(bytes))).toEqual([true, true, true])
    })
  })

  it('lists the names of all objects', async () => {
    expect(await listObjectNames(objects)).toEqual([])
    const names = ['first', 'second', 'third'].map(createObjectName).sort()
    for (const name of names) await put(name, createLargeBytes('x', 10))
    expect(await listObjectNames(objects)).toEqual(names)
  })

  it('deletes existing and missing objects, also to overwrite them', async () => {
    const [first = '', second = '', third = ''] = ['first', 'second', 'third'].map(createObjectName)
    await put(first, createLargeBytes('x', 10))
    await put(second, createLargeBytes('y', 10))
    await objects.delete(first)
    await objects.delete(second, { overwrite: true })
    await objects.delete(third)
    await objects.delete(third, { overwrite: true })
    expect(await listObjectNames(objects)).toEqual([])
  })
}
