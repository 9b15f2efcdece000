import { afterEach, describe, expect, it, jest, afterAll, beforeAll, beforeEach } from '@jest/globals'
import { join } from 'node:path'
import { createDiskBound, createStoreBound, createDiskUsage } from '../../../servers/content/disk-space.js'
import { createFileObjectStore } from '../../../servers/content/files.js'
import type { OpenContentStore } from '../../../servers/content/sql/sql-content-store.js'
import { openContentStore } from '../../../servers/content/sql/open-sqlite-contents.js'
import { ServerError } from '../../../servers/http/server-error.js'
import { listObjectNames } from '../../support/servers/content-stores.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'
import { testVault, VaultUser, type TestVault, fillVault } from '../../support/servers/vault-app.js'
import request from 'supertest'
import { cidOf } from '../../../servers/content/unixfs-blocks.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

let vaults: TestVault[] = []
afterEach(async () => {
  for (const vault of vaults.reverse()) await vault.close()
  vaults = []
})

/** Starts a vault, also on the data of an earlier one, and logs a user in. */
async function startUser(
  env: Record<string, string>,
  parts: { folder?: string; usedPercent?: () => Promise<number>; contents?: OpenContentStore } = {}
): Promise<VaultUser> {
  const vault = await testVault(env, parts)
  vaults.push(vault)
  return VaultUser.logIn(vault.listener, createNumberedWallet(1))
}

const getFolder = (): { folder: string } => ({ folder: vaults[0]!.folder })

describe('VAULT_MAX_BYTES_PER_DID', () =>
  it('limits the bytes of a user, and answers 507 with the numbers', async () => {
    const user = await startUser({ VAULT_MAX_BYTES_PER_DID: '10' })
    await user.post('a', '1234').expect(201)
    await user.post('b', '€€').expect(201)
    for (const answer of [await user.post('a', '5'), await user.put('c', '5'), await user.put('a/id', '5')]) {
      expect([answer.status, answer.text]).toEqual([507, 'Storage full: 11 bytes with this write, at most 10'])
    }
    expect((await user.get('keys')).body.keys).toHaveLength(2)
    await user.post('c', '').expect(201)
  }))

describe('VAULT_MAX_ENTRIES_PER_DID', () =>
  it('limits the entries of a user, and answers 507 with the numbers', async () => {
    const user = await startUser({ VAULT_MAX_ENTRIES_PER_DID: '2' })
    await user.post('a', '1').expect(201)
    const { id } = (await user.post('b', '2').expect(201)).body
    for (const answer of [await user.post('a', '3'), await user.put('c', '3'), await user.put('a/id', '3')]) {
      expect([answer.status, answer.text]).toEqual([507, 'Storage full: 3 entries with this write, at most 2'])
    }
    await user.put(`b/${id}`, '3').expect(200)
  }))

describe('a vault with little disk space', () => {
  const freeNothing = (): Promise<void> => Promise.resolve()

  it('refuses writes if more than 90 % is used, and still reads and deletes', async () => {
    let percent = 90
    const user = await startUser({}, { usedPercent: () => Promise.resolve(percent) })
    await user.post('a', 'kept').expect(201)
    percent = 90.1
    const laterUser = await startUser({}, { ...getFolder(), usedPercent: () => Promise.resolve(percent) })
    for (const answer of [
      await laterUser.post('a', '1'),
      await laterUser.put('a', '1'),
      await laterUser.put('a/id', '1')
    ]) {
      expect([answer.status, answer.text]).toEqual([507, 'Storage full: 90 % of the disk used, at most 90 %'])
    }
    await laterUser.read('a').expect(200, ['kept'])
    await laterUser.get('backup').expect(200)
    await laterUser.delete('a').expect(200)
    await laterUser.read('a').expect(200, [])
  })

  it('refuses writes if all users together exceed VAULT_MAX_STORE_BYTES, and still deletes', async () => {
    const env = { VAULT_MAX_STORE_BYTES: '10' }
    const user = await startUser(env)
    await user.post('a', 'eleven byte').expect(201)
    const laterUser = await startUser(env, getFolder())
    const answer = await laterUser.post('b', '1')
    expect([answer.status, answer.text]).toEqual([507, 'Storage full: 11 of 10 bytes used by all users'])
    await user.delete('a').expect(200)
  })

  it('counts replaced content, and deletes it before it refuses a write', async () => {
    const { path: folder, remove } = temporaryFolder()
    // Deleting an object breaks its readers, like in a bucket, so the store keeps replaced objects for a while.
    const objects = Object.assign(createFileObjectStore(join(folder, 'objects')), { breaksReaders: true })
    const open = () => openContentStore({ folder, database: 'vault.db', objects })
    const user = await startUser({}, { contents: await open() })
    for (const text of ['1', '2', '3', '4']) await user.put('a', text.repeat(100_000)).expect(200)
    expect(await listObjectNames(objects)).toHaveLength(4)
    const roomy = await startUser({ VAULT_MAX_STORE_BYTES: '150000' }, { contents: await open() })
    await roomy.put('a', '5'.repeat(100_000)).expect(200)
    expect(await listObjectNames(objects)).toHaveLength(2)
    const full = await startUser({ VAULT_MAX_STORE_BYTES: '50000' }, { contents: await open() })
    await full.put('a', '6').expect(507, 'Storage full: 100000 of 50000 bytes used by all users')
    remove()
  })

  it('measures the disk at most once per second', async () => {
    let measurements = 0
    let nowMilliseconds = 0
    const assertFree = createStoreBound(
      createDiskBound(() => Promise.resolve((measurements += 1) * 45)),
      freeNothing,
      () => nowMilliseconds
    )
    for (const now of [0, 1, 999]) {
      nowMilliseconds = now
      await assertFree()
    }
    expect(measurements).toBe(1)
    for (const [now, count] of [
      [1_000, 2],
      [1_999, 2],
      // The second measurement follows the attempt to free space.
      [2_000, 4]
    ] as const) {
      nowMilliseconds = now
      await (count === 4 ? expect(assertFree()).rejects.toMatchObject({ code: 'ERR_STORAGE_FULL' }) : assertFree())
      expect(measurements).toBe(count)
    }
  })

  it('accepts writes once space is freed, and checks again after a second if none was', async () => {
    let [nowMilliseconds, percent, garbage] = [0, 95, 0]
    const makeSpace = (): Promise<void> => {
      percent -= garbage
      garbage = 0
      return Promise.resolve()
    }
    const slow = { ...createDiskBound(() => Promise.resolve(percent)), freshMilliseconds: 10_000 }
    const assertFree = createStoreBound(slow, makeSpace, () => nowMilliseconds)
    await expect(assertFree()).rejects.toMatchObject({ code: 'ERR_STORAGE_FULL' })
    garbage = 10
    nowMilliseconds = 1_000
    await assertFree()
  })

  it('uses the last measurement if the disk cannot be measured any more', async () => {
    let nowMilliseconds = 0
    let isGone = false
    const measure = (): Promise<number> => (isGone ? Promise.reject(new Error('slow')) : Promise.resolve(91))
    const assertFree = createStoreBound(createDiskBound(measure), freeNothing, () => nowMilliseconds)
    await expect(assertFree()).rejects.toMatchObject({ code: 'ERR_STORAGE_FULL' })
    isGone = true
    nowMilliseconds = 5_000
    await expect(assertFree()).rejects.toMatchObject({ code: 'ERR_STORAGE_FULL' })
  })

  it('accepts writes if the disk was never measured', async () => {
    const assertFree = createStoreBound(createDiskBound(createDiskUsage('/no/such/folder')), freeNothing)
    await expect(assertFree()).resolves.toBeUndefined()
  })

  it('measures the used share of its disk in percent', async () => {
    const percent = await createDiskUsage('.')()
    expect(percent).toBeGreaterThan(0)
    expect(percent).toBeLessThan(100)
  })

  it('answers 507 if the disk fills during a write, and still reads and deletes', async () => {
    const user = await startUser({})
    await user.post('a', 'kept').expect(201)
    const full = jest.spyOn(vaults[0]!.store, 'writeEntry').mockRejectedValue(new ServerError('ERR_STORAGE_FULL'))
    await user.put('a', 'new').expect(507, 'Storage full')
    await user.read('a').expect(200, ['kept'])
    await user.delete('a').expect(200)
    full.mockRestore()
    await user.post('a', 'new').expect(201)
  })
})

describe('the usage of one user', () => {
  let vault: TestVault
  let user: VaultUser

  beforeAll(async () => {
    vault = await testVault()
    await (await VaultUser.new(vault)).post('theirs', 'hidden').expect(201)
  })
  afterAll(() => vault.close())
  beforeEach(async () => {
    user = await VaultUser.new(vault)
  })

  describe('GET /keys', () => {
    it('lists keys in the order of their first entries, each with IDs and sizes', async () => {
      const ids: string[] = []
      for (const [key, content] of [
        ['b', 'one'],
        ['a', '💥'],
        ['b', 'a'],
        ['__proto__', '']
      ] as const) {
        ids.push((await user.post(key, content).expect(201)).body.id)
      }
      const answer = await user.get('keys').expect(200)
      expect(JSON.parse(answer.text)).toEqual({
        keys: [
          {
            key: 'b',
            entries: [
              { id: ids[0], size: 3 },
              { id: ids[2], size: 1 }
            ]
          },
          { key: 'a', entries: [{ id: ids[1], size: 4 }] },
          { key: '__proto__', entries: [{ id: ids[3], size: 0 }] }
        ]
      })
      expect(answer.headers['cache-control']).toBe('no-store')
      await user.delete('a').expect(200)
      expect((await user.get('keys')).body.keys).toHaveLength(2)
    })

    it('returns no keys for a user without entries', async () => {
      const answer = await user.get('keys').expect(200)
      expect(answer.text).toBe('{"keys":[]}')
    })

    it.each([
      ['held in memory', 1],
      ['sent in chunks', 800]
    ])('returns the exact JSON if it is %s, and only its headers for HEAD', async (_how, size) => {
      const quotes = '"\\'.repeat(250)
      const names = ['é 💥', 'b', '__proto__', ...Array.from({ length: size }, (_, number) => `${quotes}${number}`)]
      // Each key gets one entry, and then each gets a second one.
      const entries = [...names, ...names].map((key, number) => ({ key, content: `content ${number}` }))
      await fillVault(
        vault,
        user.did,
        entries.map(({ key, content }) => [key, content])
      )
      const toEntry = (content: string) => ({ id: cidOf(Buffer.from(content)), size: content.length })
      const expected = JSON.stringify({
        keys: names.map((key, number) => ({
          key,
          entries: [number, number + names.length].map((index) => toEntry(`content ${index}`))
        }))
      })
      const headers = { 'cache-control': 'no-store', 'content-type': 'application/json; charset=utf-8' }
      const answer = await user.get('keys').expect(200)
      expect(answer.text === expected).toBe(true)
      expect(answer.headers).toMatchObject(headers)
      expect(answer.headers).not.toHaveProperty('etag')
      const head = await request(vault.listener).head('/keys').set('Authorization', user.authorization).expect(200)
      expect(head.headers).toMatchObject(headers)
    })
  })

  describe('GET /storage', () => {
    it('counts UTF-8 bytes and entries, and what remains of 64 MiB and 10,000 entries', async () => {
      await user.post('a', '💥').expect(201)
      await user.post('b', '💥').expect(201)
      const answer = await user.get('storage').expect(200)
      expect(answer.body).toEqual({ used: 8, available: 67_108_856, usedEntries: 2, availableEntries: 9_998 })
      expect(answer.headers['cache-control']).toBe('no-store')
    })

    it('reports nothing available, and no negative number, after the quota was lowered', async () => {
      for (const content of ['123', '456']) await user.post('a', content).expect(201)
      const lowered = { VAULT_MAX_BYTES_PER_DID: '5', VAULT_MAX_ENTRIES_PER_DID: '1' }
      const loweredVault = await testVault(lowered, { folder: vault.folder })
      const sameUser = new VaultUser(loweredVault.listener, user.did, user.authorization.slice('DIDAuth '.length))
      const answer = await sameUser.get('storage').expect(200)
      await loweredVault.close()
      expect(answer.body).toEqual({ used: 6, available: 0, usedEntries: 2, availableEntries: 0 })
    })
  })

  describe('GET /backup', () => {
    it('contains every entry with key, ID and content, in the order of writing', async () => {
      const entries: { key: string; id: string; content: string }[] = []
      for (const [key, content] of [
        ['b', 'one'],
        ['a"\\', '"quoted"'],
        ['b', ''],
        ['c', 'one']
      ] as const) {
        const { id } = (await user.post(encodeURIComponent(key), content).expect(201)).body
        entries.push({ key, id, content })
      }
      const answer = await user.get('backup').expect(200)
      expect(JSON.parse(answer.text)).toEqual({ did: user.did, entries })
      expect(Object.keys(answer.body)).toEqual(['did', 'entries'])
      expect(answer.headers).toMatchObject({
        'cache-control': 'no-store',
        'content-type': 'application/json; charset=utf-8',
        'content-length': String(Buffer.byteLength(answer.text))
      })
    })

    it('is empty for a user without entries', async () => {
      const answer = await user.get('backup').expect(200)
      expect(answer.text).toBe(`{"did":"${user.did}","entries":[]}`)
    })
  })
})
