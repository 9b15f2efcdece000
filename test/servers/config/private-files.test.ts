import { describe, expect, it } from '@jest/globals'
import { existsSync, linkSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { createPrivateFolder, readOrCreateSecret } from '../../../servers/config/private-files.js'
import { folderOfEachTest } from '../../support/fixtures/folder-of-each-test.js'

/** A disk without hard links: exFAT, SMB, a kernel that refuses links, FUSE. */
const refuseLinks = (code: string) => (): never => {
  throw Object.assign(new Error(code), { code })
}

describe('createPrivateFolder', () => {
  const folder = folderOfEachTest()

  it('creates each missing level for its owner, and reports them', () => {
    const paths = [join(folder.path, 'a'), join(folder.path, 'a', 'b')]
    expect(createPrivateFolder(join(folder.path, 'a', 'b'))).toEqual(paths)
    for (const path of paths) expect(statSync(path).mode & 0o777).toBe(0o700)
    expect(createPrivateFolder(join(folder.path, 'a', 'b'))).toEqual([])
  })

  it('throws the cause of the first level that cannot be created, as on a read-only disk', () => {
    const tried: string[] = []
    const fail = (path: string): never => {
      tried.push(path)
      throw Object.assign(new Error('read-only'), { code: 'EROFS' })
    }
    expect(() => createPrivateFolder(join(folder.path, 'a', 'b'), fail)).toThrow('read-only')
    expect(tried).toEqual([join(folder.path, 'a')])
  })

  // The recursive form of Node never returns here.
  it('fails at once below /proc', () => {
    if (existsSync('/proc/self')) expect(() => createPrivateFolder('/proc/missing/data')).toThrow(/ENOENT|EACCES|EPERM/)
    writeFileSync(join(folder.path, 'file'), '')
    expect(() => createPrivateFolder(join(folder.path, 'file'))).toThrow('EEXIST')
    expect(() => createPrivateFolder(join(folder.path, 'file', 'data'))).toThrow('ENOTDIR')
  })
})

describe('readOrCreateSecret', () => {
  const folder = folderOfEachTest()
  const file = (): string => join(folder.path, 'secret')

  it.each(['EPERM', 'EACCES', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'])(
    'creates a private file once on a disk whose links fail with %s',
    (code) => {
      const secret = readOrCreateSecret(file(), refuseLinks(code))
      expect(secret).toMatch(/^[0-9a-f]{64}$/)
      expect(readFileSync(file(), 'utf8')).toBe(`${secret}\n`)
      expect(statSync(file()).mode & 0o777).toBe(0o600)
      expect(readOrCreateSecret(file(), refuseLinks(code))).toBe(secret)
      expect(readdirSync(folder.path)).toEqual(['secret'])
    }
  )

  it.each([
    ['with', linkSync],
    ['without', refuseLinks('EPERM')]
  ])('returns the secret of another process that was faster, %s hard links', (_what, link) => {
    const faster: typeof linkSync = (from, to) => {
      writeFileSync(to, 'a'.repeat(64), { flag: 'wx' })
      link(from, to)
    }
    expect(readOrCreateSecret(file(), faster)).toBe('a'.repeat(64))
    expect(readdirSync(folder.path)).toEqual(['secret'])
  })

  it('throws other errors of the disk, and leaves no draft', () => {
    expect(() => readOrCreateSecret(file(), refuseLinks('EIO'))).toThrow('EIO')
    expect(readdirSync(folder.path)).toEqual([])
  })

  it('waits until another process has written all digits, and returns too few after 2 s', async () => {
    writeFileSync(file(), 'a'.repeat(10))
    const writeRest =
      "const { file } = require('worker_threads').workerData; require('fs').appendFileSync(file, 'a'.repeat(54))"
    // The reader blocks this thread.
    const worker = new Worker(`setTimeout(() => { ${writeRest} }, 200)`, { eval: true, workerData: { file: file() } })
    await new Promise((resolve) => worker.once('online', resolve))
    expect(readOrCreateSecret(file())).toBe('a'.repeat(64))
    await worker.terminate()
    writeFileSync(file(), '')
    const startedAt = performance.now()
    expect(readOrCreateSecret(file())).toBe('')
    expect(performance.now() - startedAt).toBeGreaterThan(1_900)
    writeFileSync(file(), 'no digits')
    expect(readOrCreateSecret(file())).toBe('no digits')
  })
})
