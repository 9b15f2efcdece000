import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { renameSync, statSync } from 'node:fs'
import { join } from 'node:path'
import request from 'supertest'
import { createFileObjectStore } from '../../../servers/content/files.js'
import { openContentStore } from '../../../servers/content/sql/open-sqlite-contents.js'
import { HandMadeNode } from '../../support/faults/hand-made-node.js'
import { deadRpcUrl } from '../../support/faults/rpc-node.js'
import { listObjectNames } from '../../support/servers/content-stores.js'
import {
  changeDatabase,
  getDatabase,
  testVault,
  VaultUser,
  type TestVault,
  type VaultTestParts
} from '../../support/servers/vault-app.js'
import { filesIn, temporaryFolder } from '../../support/fixtures/store-folder.js'
import { until } from '../../support/fixtures/until.js'
import { holdTime } from '../../support/fixtures/hold-time.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const vaults: TestVault[] = []
afterEach(async () => {
  for (const vault of vaults.splice(0)) await vault.close()
})

async function start(env: Record<string, string> = {}, parts: VaultTestParts = {}): Promise<TestVault> {
  const vault = await testVault(env, parts)
  vaults.push(vault)
  return vault
}

describe('content of the vault that a write has replaced', () => {
  const folder = temporaryFolder()
  afterEach(() => {
    jest.useRealTimers()
    folder.remove()
  })

  it('is collected a second later, and a write that replaces nothing starts no collection', async () => {
    const doNotFake = ['hrtime', 'nextTick', 'performance', 'queueMicrotask', 'setImmediate', 'setInterval'] as const
    jest.useFakeTimers({ doNotFake: [...doNotFake, 'Date'] })
    const objects = createFileObjectStore(join(folder.path, 'objects'))
    const contents = await openContentStore({ folder: folder.path, database: 'vault.db', objects })
    const collect = jest.spyOn(contents.store, 'collectGarbage')
    const user = await VaultUser.new(await start({}, { contents }))
    // The vault also collects at its start, and then about every minute.
    await collect.mock.results[0]!.value
    await user.put('key', 'a'.repeat(100_000)).expect(200)
    await user.put('key', 'a'.repeat(100_000)).expect(200)
    await jest.advanceTimersByTimeAsync(30_000)
    expect(collect).toHaveBeenCalledTimes(1)
    const replacedNames = await listObjectNames(objects)
    await user.put('key', 'b'.repeat(100_000)).expect(200)
    await jest.advanceTimersByTimeAsync(1_000)
    expect(collect).toHaveBeenCalledTimes(2)
    await collect.mock.results[1]!.value
    const names = await listObjectNames(objects)
    expect([replacedNames.length, names.length, names.includes(replacedNames[0]!)]).toEqual([1, 1, false])
  })
})

describe('GET /ready of the vault', () => {
  beforeEach(() => {
    holdTime()
  })
  afterEach(() => {
    jest.restoreAllMocks()
  })

  it('answers 503, like every write, if the database was moved', async () => {
    const vault = await start()
    const user = await VaultUser.new(vault)
    await user.post('a', 'kept').expect(201)
    renameSync(getDatabase(vault), `${getDatabase(vault)}-moved`)
    const { body } = await request(vault.listener).get('/ready').expect(503)
    expect(body.dependencies).toEqual({ store: 'unavailable', clock: 'ok', signer: 'ok', ipfs: 'none' })
    await user.post('a', 'b').expect(503, 'Storage unavailable, try again')
    await user.read('a').expect(200, ['kept'])
  })

  it('writes at most once in 5 s, however often it is requested', async () => {
    const vault = await start()
    const probe = jest.spyOn(vault.store, 'probe')
    const startedAt = performance.now()
    let passedMilliseconds = 0
    const clockSpy = jest.spyOn(performance, 'now').mockImplementation(() => startedAt + passedMilliseconds)
    for (passedMilliseconds = 0; passedMilliseconds < 12_000; passedMilliseconds += 1_000)
      await request(vault.listener).get('/ready').expect(200)
    clockSpy.mockRestore()
    expect(probe).toHaveBeenCalledTimes(3)
  })

  it('reports RPC and IPFS node, and answers 200 without them', async () => {
    const node = new HandMadeNode()
    const { listener } = await start({ RPC_URL: await deadRpcUrl() }, { node })
    const ready = await request(listener).get('/ready').expect(200)
    expect(ready.body.dependencies).toEqual({ store: 'ok', clock: 'ok', signer: 'ok', rpc: 'unavailable', ipfs: 'ok' })
    node.fault = () => 'ERR_IPFS_UNAVAILABLE'
    const { listener: otherListener } = await start({}, { node })
    const { body } = await request(otherListener).get('/ready').expect(200)
    expect(body).toEqual({
      status: 'ready',
      dependencies: { store: 'ok', clock: 'ok', signer: 'ok', ipfs: 'unavailable' }
    })
  })
})

describe('Pin-Status', () => {
  it('is absent after a pinned write, and pending while the node is unavailable', async () => {
    const node = new HandMadeNode()
    const vault = await start({}, { node })
    const user = await VaultUser.new(vault)
    const { body, headers } = await user.post('notes', 'a').expect(201)
    expect(headers).not.toHaveProperty('pin-status')
    expect([...node.pins]).toEqual([body.id])
    node.fault = () => 'ERR_IPFS_UNAVAILABLE'
    for (const answer of [
      await user.post('notes', 'b').expect(201),
      await user.put(`notes/${body.id as string}`, 'c').expect(200),
      await user.put('notes', 'd').expect(200),
      await user.delete('notes').expect(200)
    ]) {
      expect(answer.headers['pin-status']).toBe('pending')
    }
    await user.read('notes').expect(200, [])
  })

  it('is absent after a delete of content that another entry still uses', async () => {
    const node = new HandMadeNode()
    const vault = await start({}, { node })
    const user = await VaultUser.new(vault)
    for (const key of ['one', 'two']) await user.post(key, 'a').expect(201)
    expect((await user.delete('one').expect(200)).headers).not.toHaveProperty('pin-status')
    expect(node.pins.size).toBe(1)
    expect((await user.delete('two').expect(200)).headers).not.toHaveProperty('pin-status')
    expect(node.pins.size).toBe(0)
  })
})

describe('the log of the vault', () =>
  it('names routes by their pattern, and contains no key, DID, ID or content', async () => {
    const { listener, log } = await start({ LOG_LEVEL: 'debug' })
    const user = await VaultUser.logIn(listener, createNumberedWallet(1))
    const { id } = (await user.post('planted-key', 'planted content').expect(201)).body
    await user.put(`planted-key/${id}`, 'planted content').expect(200)
    await user.read('planted-key').expect(200)
    for (const path of ['keys', 'storage', 'backup']) await user.get(path).expect(200)
    await user.put('%00planted-key', 'planted content').expect(400)
    await user.delete(`planted-key/${id}`).expect(200)
    await user.delete('planted-key').expect(200)
    await request(listener).patch('/planted-key').expect(404)
    const lines = log().filter(({ event }) => event === 'request')
    expect(lines.map(({ method, route, status }) => [method, route, status].join(' '))).toEqual([
      'POST /request-auth 200',
      'POST /auth 200',
      'POST /:key 201',
      'PUT /:key/:id 200',
      'GET /:did/:key 200',
      'GET /keys 200',
      'GET /storage 200',
      'GET /backup 200',
      'PUT /:key 400',
      'DELETE /:key/:id 200',
      'DELETE /:key 200',
      'PATCH other 404'
    ])
    const text = JSON.stringify(log())
    for (const secret of ['planted', id, createNumberedWallet(1).did.slice(-40), user.authorization.slice(-40)]) {
      expect(text).not.toContain(secret)
    }
  }))

describe('a vault whose tables are lost', () => {
  it('answers 503 without details', async () => {
    const vault = await start()
    const user = await VaultUser.new(vault)
    // The vault answers a user without entries without a query for entries.
    await user.post('a', 'a').expect(201)
    changeDatabase(vault, 'DROP TABLE entries')
    for (const answer of [
      await user.post('a', 'b'),
      await user.put('a', 'b'),
      await user.delete('a'),
      await user.read('a'),
      await user.get('keys'),
      await user.get('backup')
    ]) {
      expect([answer.status, answer.text]).toEqual([503, 'Storage unavailable, try again'])
      expect(answer.headers).not.toHaveProperty('etag')
      expect(answer.headers['retry-after']).toBe('5')
    }
    expect(vault.log().filter(({ event }) => event === 'request-failed')).toHaveLength(6)
  })
})

describe('large content that a PUT replaces', () =>
  it('is deleted within 2 s, without another request', async () => {
    jest.useFakeTimers({
      doNotFake: ['nextTick', 'setImmediate', 'setInterval', 'queueMicrotask', 'performance', 'Date']
    })
    try {
      const vault = await start()
      const user = await VaultUser.new(vault)
      await user.put('a', 'x'.repeat(100_000)).expect(200)
      await user.put('a', 'y'.repeat(100_001)).expect(200)
      const readObjectSizes = (): number[] => filesIn(join(vault.folder, 'objects')).map((file) => statSync(file).size)
      expect(readObjectSizes().sort()).toEqual([100_000, 100_001])
      await jest.advanceTimersByTimeAsync(2_000)
      // The collector has started, and its deletions run in real time.
      await until(() => readObjectSizes().join() === '100001')
    } finally {
      jest.useRealTimers()
    }
  }))
