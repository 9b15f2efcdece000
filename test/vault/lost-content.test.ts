import { beforeEach, describe, expect, it } from '@jest/globals'
import { ContentStore } from '../../servers/shared/content/content-store.js'
import { GroupCommit } from '../../servers/shared/content/group-commit.js'
import { PinIntents } from '../../servers/vault/pins/pin-intents.js'
import { takeDown } from '../../servers/vault/repair/takedown.js'
import { blockCount, testVault, VaultUser, type TestVault } from '../support/vault-app.js'
import { VaultNode } from '../support/vault-node.js'
import { walletOf } from '../support/wallet.js'

const LARGE = 'a'.repeat(600_000)

let node: VaultNode
let vault: TestVault
let user: VaultUser

async function start(hasNode: boolean): Promise<void> {
  node = new VaultNode()
  vault = await testVault({}, hasNode ? { node } : {})
  user = await VaultUser.logIn(vault.listener, walletOf(1))
  for (const content of ['first', LARGE, 'last']) await user.post('notes', content).expect(201)
  await user.post('else', 'whole').expect(201)
}

/** Ways in which a disk spoils content, each on the database; LARGE has two leaves alike, and one more. */
const DAMAGES: [string, string][] = [
  ['a block of its own', "DELETE FROM blocks WHERE length(bytes) = 5 AND bytes = CAST('first' AS BLOB)"],
  ['a leaf', 'DELETE FROM blocks WHERE length(bytes) = 262144'],
  ['a node above leaves', "DELETE FROM blocks WHERE cid LIKE 'bafybei%'"],
  ['a bit', "UPDATE blocks SET bytes = CAST('firsu' AS BLOB) WHERE bytes = CAST('first' AS BLOB)"],
  ['a node above leaves, damaged', "UPDATE blocks SET bytes = x'00' WHERE cid LIKE 'bafybei%'"],
  ['an end', 'UPDATE blocks SET bytes = substr(bytes, 1, 100) WHERE length(bytes) = 262144'],
  ['everything', 'DELETE FROM blocks']
]

describe('content that is lost here', () => {
  beforeEach(() => start(false))

  it.each(DAMAGES)('makes the whole answer 502 without a node: %s', async (_what, damage) => {
    vault.database.exec(damage)
    const answer = await user.read('notes').set('If-None-Match', '"other"').expect(502, 'Content lost')
    expect(answer.headers['cache-control']).toBe('no-store')
    expect(answer.headers).not.toHaveProperty('etag')
    await user.get('backup').expect(502, 'Content lost')
    expect(vault.log()).toContainEqual(expect.objectContaining({ event: 'request-failed', reason: 'ERR_CONTENT_LOST' }))
  })

  it('troubles no other key', async () => {
    vault.database.exec(DAMAGES[0]![1])
    await user.read('else').expect(200, ['whole'])
  })

  it('comes back when its owner writes it again', async () => {
    for (const [verb, path] of [
      ['post', 'notes'],
      ['put', 'other']
    ] as const) {
      vault.database.exec("DELETE FROM blocks WHERE bytes = CAST('first' AS BLOB)")
      await user.read('notes').expect(502)
      await user[verb](path, 'first')
      expect((await user.read('notes').expect(200)).body).toEqual(['first', LARGE, 'last'])
    }
  })

  it('can still be deleted and replaced', async () => {
    const { id } = (await user.post('notes', 'first')).body
    vault.database.exec('DELETE FROM blocks WHERE length(bytes) = 5')
    await user.put(`notes/${id}`, 'new').expect(200)
    expect((await user.read('notes').expect(200)).body).toEqual([LARGE, 'last', 'new'])
    vault.database.exec('DELETE FROM blocks')
    await user.delete('notes').expect(200)
    await user.read('notes').expect(200, [])
    expect((await user.get('storage')).body).toMatchObject({ used: 5, usedEntries: 1 })
  })
})

describe('content that is lost here and kept by the node', () => {
  beforeEach(() => start(true))

  it.each(DAMAGES)('is read there, verified and put back: %s', async (_what, damage) => {
    const blocks = blockCount(vault)
    vault.database.exec(damage)
    expect((await user.read('notes').expect(200)).body).toEqual(['first', LARGE, 'last'])
    await user.read('else').expect(200, ['whole'])
    expect(blockCount(vault)).toBe(blocks)
    const asked = node.reads.length
    expect(asked).toBeGreaterThan(0)
    expect(vault.log()).toContainEqual(expect.objectContaining({ event: 'content-repaired', level: 'warn' }))
    expect((await user.read('notes').expect(200)).body).toEqual(['first', LARGE, 'last'])
    expect(node.reads).toHaveLength(asked)
  })

  it.each(['ERR_NODE_AWAY', 'ERR_NODE_SLOW', 'ERR_NODE_NONSENSE'] as const)(
    'is 502 while the node fails: %s',
    async (fault) => {
      vault.database.exec('DELETE FROM blocks WHERE length(bytes) = 5')
      node.fault = fault
      await user.read('notes').expect(502, 'Content lost')
      node.fault = undefined
      expect((await user.read('notes').expect(200)).body).toEqual(['first', LARGE, 'last'])
    }
  )

  it('is 502 when the node lies, and nothing of the lie is kept', async () => {
    const { id } = (await user.post('notes', 'first')).body
    vault.database.exec("DELETE FROM blocks WHERE bytes = CAST('first' AS BLOB)")
    const blocks = blockCount(vault)
    node.contents.set(id, Buffer.from('lying'))
    await user.read('notes').expect(502, 'Content lost')
    expect(blockCount(vault)).toBe(blocks)
  })

  it('is asked for once by all who read it at once', async () => {
    vault.database.exec("DELETE FROM blocks WHERE bytes = CAST('first' AS BLOB)")
    const answers = await Promise.all(Array.from({ length: 20 }, () => user.read('notes')))
    expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200))
    expect(node.reads).toHaveLength(1)
  })

  it('is not asked for by more than 16 readers of as many contents at once', async () => {
    for (let number = 0; number < 20; number += 1) await user.post(`key${number}`, `content ${number}`).expect(201)
    vault.database.exec("DELETE FROM blocks WHERE CAST(bytes AS TEXT) LIKE 'content %'")
    let open = (): void => undefined
    node.gate = new Promise((resolve) => (open = resolve))
    const asked = Array.from({ length: 20 }, async (_, number) => (await user.read(`key${number}`)).status)
    while (node.reads.length < 16) await new Promise(setImmediate)
    // Only those who are refused are answered before the node is.
    await Promise.race(asked)
    open()
    expect((await Promise.all(asked)).sort()).toEqual([...Array<number>(16).fill(200), ...Array<number>(4).fill(502)])
    for (let number = 0; number < 20; number += 1) await user.read(`key${number}`).expect(200, [`content ${number}`])
  })

  it('is read although it cannot be put back', async () => {
    vault.database.exec("DELETE FROM blocks WHERE bytes = CAST('first' AS BLOB)")
    vault.database.pragma('query_only = ON')
    expect((await user.read('notes').expect(200)).body).toEqual(['first', LARGE, 'last'])
    vault.database.pragma('query_only = OFF')
    expect(vault.log()).toContainEqual(expect.objectContaining({ event: 'repair-failed', level: 'error' }))
  })

  it('is not put back when it is removed while the node is asked', async () => {
    vault.database.exec("DELETE FROM blocks WHERE bytes = CAST('first' AS BLOB)")
    const blocks = blockCount(vault)
    let open = (): void => undefined
    node.gate = new Promise((resolve) => (open = resolve))
    const reading = user.read('notes').then(({ status }) => status)
    while (node.reads.length === 0) await new Promise(setImmediate)
    const { id } = (await user.get('keys')).body.keys[0].entries[0]
    const contents = new ContentStore(vault.database)
    const intents = new PinIntents(vault.database, new GroupCommit(vault.database))
    expect(takeDown({ database: vault.database, contents, intents }, id, false)).toEqual({
      entryCount: 1,
      userCount: 1,
      isOutOfFile: true
    })
    open()
    expect(await reading).toBe(200)
    expect(contents.read(id)).toBeUndefined()
    expect(blockCount(vault)).toBe(blocks)
    expect((await user.read('notes').expect(200)).body).toEqual([LARGE, 'last'])
  })
})
