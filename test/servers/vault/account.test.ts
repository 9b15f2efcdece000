import { afterAll, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { cidOf } from '../../../servers/storage/unixfs-blocks.js'
import { fillVault, testVault, VaultUser, type TestVault } from '../../support/vault-app.js'

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
  it('lists keys in the order of their first entries, each with ids and sizes', async () => {
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

  it('is empty for a user who has nothing', async () => {
    const answer = await user.get('keys').expect(200)
    expect(answer.text).toBe('{"keys":[]}')
  })

  it.each([
    ['held in memory', 1],
    ['sent in chunks', 3_000]
  ])('is the exact JSON with its length when it is %s, and only the length for HEAD', async (_how, size) => {
    const quotes = '"\\'.repeat(250)
    const names = ['é 💥', 'b', '__proto__', ...Array.from({ length: size }, (_, number) => `${quotes}${number}`)]
    // Every key once, and then all of them once more.
    const entries = [...names, ...names].map((key, number) => ({ key, content: `content ${number}` }))
    await fillVault(
      vault,
      user.did,
      entries.map(({ key, content }) => [key, content])
    )
    const entryOf = (content: string) => ({ id: cidOf(Buffer.from(content)), size: content.length })
    const expected = JSON.stringify({
      keys: names.map((key, number) => ({
        key,
        entries: [number, number + names.length].map((one) => entryOf(`content ${one}`))
      }))
    })
    const headers = {
      'cache-control': 'no-store',
      'content-type': 'application/json; charset=utf-8'
    }
    const answer = await user.get('keys').expect(200)
    expect(answer.text === expected).toBe(true)
    expect(answer.headers).toMatchObject(headers)
    expect(answer.headers).not.toHaveProperty('etag')
    const head = await request(vault.listener).head('/keys').set('Authorization', user.authorization).expect(200)
    expect(head.headers).toMatchObject(headers)
  })
})

describe('GET /storage', () => {
  it('counts bytes in UTF-8 and entries, and what is left of 64 MiB and 10,000', async () => {
    await user.post('a', '💥').expect(201)
    await user.post('b', '💥').expect(201)
    const answer = await user.get('storage').expect(200)
    expect(answer.body).toEqual({ used: 8, available: 67_108_856, usedEntries: 2, availableEntries: 9_998 })
    expect(answer.headers['cache-control']).toBe('no-store')
  })

  it('shows nothing left, and not less, where the quota was lowered', async () => {
    for (const content of ['123', '456']) await user.post('a', content).expect(201)
    const lowered = { VAULT_MAX_BYTES_PER_DID: '5', VAULT_MAX_ENTRIES_PER_DID: '1' }
    const later = await testVault(lowered, { folder: vault.folder })
    const again = new VaultUser(later.listener, user.did, user.authorization.slice('DIDAuth '.length))
    const answer = await again.get('storage').expect(200)
    await later.close()
    expect(answer.body).toEqual({ used: 6, available: 0, usedEntries: 2, availableEntries: 0 })
  })
})

describe('GET /backup', () => {
  it('holds every entry with key, id and content, in the order of writing', async () => {
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

  it('is empty for a user who has nothing', async () => {
    const answer = await user.get('backup').expect(200)
    expect(answer.text).toBe(`{"did":"${user.did}","entries":[]}`)
  })
})

describe('10,000 keys and 10 MiB of one user', () => {
  it('are listed, counted, backed up, read and replaced', async () => {
    const contents = Array.from({ length: 10_000 }, (_, number) => `${number} `.padEnd(1_049, 'z'))
    await fillVault(
      vault,
      user.did,
      contents.map((content, number) => [`key ${number}`, content])
    )
    const { keys } = (await user.get('keys').expect(200)).body
    expect(keys).toHaveLength(10_000)
    expect(keys[9_999]).toMatchObject({ key: 'key 9999', entries: [{ size: 1_049 }] })
    expect((await user.get('storage')).body).toEqual({
      used: 10_490_000,
      available: 56_618_864,
      usedEntries: 10_000,
      availableEntries: 0
    })
    const { did, entries } = (await user.get('backup').expect(200)).body
    expect([did, entries.length]).toEqual([user.did, 10_000])
    expect(entries.map((entry: { content: string }) => entry.content)).toEqual(contents)
    await user.read('key%205000').expect(200, [contents[5_000]])
    await user.post('one-more', 'a').expect(507, 'Storage full: 10001 entries with this, at most 10000')
    await user.put('key%205000', 'new').expect(200)
    await user.read('key%205000').expect(200, ['new'])
  })
})
