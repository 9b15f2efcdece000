import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { open, type FileHandle } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { createFileObjectStore, openSpool } from '../../../servers/content/files.js'
import type { ObjectStore } from '../../../servers/content/content-store.js'
import { listObjectNames } from '../../support/servers/content-stores.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'

let folder: string
let remove: () => void
beforeEach(() => {
  ;({ path: folder, remove } = temporaryFolder())
})
afterEach(() => remove())

describe('createFileObjectStore', () => {
  let objects: ObjectStore
  let file: string
  beforeEach(() => {
    objects = createFileObjectStore(join(folder, 'objects'))
    file = join(folder, 'body')
    writeFileSync(file, 'content', { mode: 0o644 })
  })

  it('stores a file only for its owner, in a folder named after the end of its name', async () => {
    await objects.put('cid.12ab', file)
    const path = join(folder, 'objects', 'ab', 'cid.12ab')
    expect(readFileSync(path, 'utf8')).toBe('content')
    expect(statSync(path).mode & 0o777).toBe(0o600)
    expect(statSync(join(folder, 'objects')).mode & 0o777).toBe(0o700)
    expect(await listObjectNames(objects)).toEqual(['cid.12ab'])
  })

  it.each([
    { isSynced: true, isOpen: false, expected: ['content', 'its folder', 'objects'] },
    { isSynced: true, isOpen: true, expected: ['content', 'its folder', 'objects'] },
    { isSynced: false, isOpen: true, expected: [] }
  ])(
    'syncs content before it links it into place, then the folders: isSynced $isSynced, isOpen $isOpen',
    async (options) => {
      const { isSynced, isOpen, expected } = options
      const synced: string[] = []
      const handle = await open(file)
      const sync = jest.spyOn(Object.getPrototypeOf(handle) as FileHandle, 'sync')
      sync.mockImplementation(async function (this: FileHandle) {
        const { ino, nlink } = await this.stat()
        const bodyInode = statSync(file).ino
        const name = ino === statSync(join(folder, 'objects')).ino ? 'objects' : 'its folder'
        synced.push(ino === bodyInode ? (nlink === 1 ? 'content' : 'content too late') : name)
      })
      mkdirSync(join(folder, 'objects'))
      await createFileObjectStore(join(folder, 'objects'), { isSynced }).put(
        'cid.12ab',
        file,
        isOpen ? handle : undefined
      )
      sync.mockRestore()
      await handle.close()
      expect(synced).toEqual(expected)
    }
  )

  it('overwrites no existing object', async () => {
    await objects.put('one', file)
    writeFileSync(join(folder, 'other'), 'other')
    await expect(objects.put('one', join(folder, 'other'))).rejects.toMatchObject({ code: 'EEXIST' })
    expect(readFileSync(join(folder, 'objects', 'ne', 'one'), 'utf8')).toBe('content')
  })

  it('deletes existing and missing objects, and overwrites them first on request', async () => {
    await objects.put('one', file)
    // `file` is a hard link to the object until the caller deletes it.
    await objects.delete('one', { overwrite: true })
    expect(readFileSync(file)).toEqual(Buffer.alloc(7))
    await objects.delete('one', { overwrite: true })
    await objects.delete('two')
    expect(await listObjectNames(objects)).toEqual([])
  })
})

describe('openSpool', () => {
  const endedPid = spawnSync('true').pid

  it('returns an unused file name, a new one on each call', () => {
    const spool = openSpool(join(folder, 'spool'))
    const names = [spool.newFile(), spool.newFile()]
    expect(new Set(names).size).toBe(2)
    expect(names.some((name) => existsSync(name))).toBe(false)
  })

  it('deletes files of ended processes, and none of running ones', () => {
    mkdirSync(join(folder, 'spool'))
    const abandonedFiles = [`${hostname()}~${endedPid}~aa~1`, `${hostname()}~${process.pid}~of a start before~1`]
    const foreignFiles = [`${hostname()}~1~aa~1`, 'another machine~1~aa~1']
    for (const name of [...abandonedFiles, ...foreignFiles]) writeFileSync(join(folder, 'spool', name), '')
    const ownFile = openSpool(join(folder, 'spool')).newFile()
    writeFileSync(ownFile, '')
    expect(readdirSync(join(folder, 'spool')).sort()).toEqual(
      [...foreignFiles, ownFile.slice(folder.length + 7)].sort()
    )
    expect(readdirSync(join(folder, 'spool'))).toHaveLength(3)
    openSpool(join(folder, 'spool'))
    expect(existsSync(ownFile)).toBe(true)
  })
})
