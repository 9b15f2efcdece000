import { describe, expect, it } from '@jest/globals'
import Database from 'better-sqlite3'
import { MemoryStore } from 'express-did-auth'
import request from 'supertest'
import { createVaultTables } from '../../servers/vault/vault-schema.js'
import { testVault, VaultUser } from '../support/vault-app.js'
import { VaultNode } from '../support/vault-node.js'
import { deadRpcUrl } from '../support/rpc-node.js'
import { walletOf } from '../support/wallet.js'

/** A store that cannot be reached. */
class LostStore extends MemoryStore {
  override ping(): Promise<void> {
    return Promise.reject(new Error('gone'))
  }
}

describe('GET /ready of the vault', () => {
  it('lists store and signer', async () => {
    const { listener } = await testVault()
    const { body } = await request(listener).get('/ready').expect(200)
    expect(body).toEqual({ status: 'ready', dependencies: { store: 'ok', signer: 'ok' } })
  })

  it('is 503 while the store of sessions is away', async () => {
    const { listener } = await testVault({}, { store: new LostStore() })
    const { body } = await request(listener).get('/ready').expect(503)
    expect(body.dependencies).toEqual({ store: 'unavailable', signer: 'ok' })
  })

  it('is 503 while its own database is away', async () => {
    const { listener, database } = await testVault()
    database.close()
    const { body } = await request(listener).get('/ready').expect(503)
    expect(body.dependencies).toEqual({ store: 'unavailable', signer: 'ok' })
  })

  it('lists RPC and IPFS node, and is 200 without them', async () => {
    const node = new VaultNode()
    const { listener } = await testVault({ RPC_URL: await deadRpcUrl() }, { node })
    const ready = await request(listener).get('/ready').expect(200)
    expect(ready.body.dependencies).toEqual({ store: 'ok', signer: 'ok', rpc: 'unavailable', ipfs: 'ok' })
    node.fault = 'ERR_NODE_AWAY'
    const { listener: another } = await testVault({}, { node })
    const { body } = await request(another).get('/ready').expect(200)
    expect(body).toEqual({ status: 'ready', dependencies: { store: 'ok', signer: 'ok', ipfs: 'unavailable' } })
  })
})

describe('Pin-Status', () => {
  it('is absent after a write that the node has pinned, and pending while it is away', async () => {
    const node = new VaultNode()
    const { listener, close } = await testVault({}, { node })
    const user = await VaultUser.logIn(listener, walletOf(1))
    const { body, headers } = await user.post('notes', 'a').expect(201)
    expect(headers).not.toHaveProperty('pin-status')
    expect([...node.pins]).toEqual([body.id])
    node.fault = 'ERR_NODE_AWAY'
    for (const answer of [
      await user.post('notes', 'b').expect(201),
      await user.put(`notes/${body.id as string}`, 'c').expect(200),
      await user.put('notes', 'd').expect(200),
      await user.delete('notes').expect(200)
    ]) {
      expect(answer.headers['pin-status']).toBe('pending')
    }
    await user.read('notes').expect(200, [])
    await close()
  })

  it('is absent after a delete of what another entry still has', async () => {
    const node = new VaultNode()
    const { listener, close } = await testVault({}, { node })
    const user = await VaultUser.logIn(listener, walletOf(1))
    for (const key of ['one', 'two']) await user.post(key, 'a').expect(201)
    node.fault = 'ERR_NODE_AWAY'
    expect((await user.delete('one').expect(200)).headers).not.toHaveProperty('pin-status')
    expect(node.pins.size).toBe(1)
    node.fault = undefined
    expect((await user.delete('two').expect(200)).headers).not.toHaveProperty('pin-status')
    expect(node.pins.size).toBe(0)
    await close()
  })

  it('may be read by pages of CORS_ORIGINS', async () => {
    const { listener } = await testVault({ CORS_ORIGINS: 'https://app.example' })
    const user = await VaultUser.logIn(listener, walletOf(1))
    const { headers } = await user.post('notes', 'a').set('Origin', 'https://app.example').expect(201)
    expect(headers['access-control-expose-headers']).toContain('Pin-Status')
    const preflight = await request(listener)
      .options('/notes/id')
      .set('Origin', 'https://app.example')
      .set('Access-Control-Request-Method', 'PUT')
      .expect(204)
    expect(preflight.headers['access-control-allow-methods']).toContain('PUT')
  })
})

describe('the log of the vault', () => {
  it('names routes by their pattern, and holds no key, DID, id or content', async () => {
    const { listener, log } = await testVault({ LOG_LEVEL: 'debug' })
    const user = await VaultUser.logIn(listener, walletOf(1))
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
    for (const secret of ['planted', id, walletOf(1).did.slice(-40), user.authorization.slice(-40)]) {
      expect(text).not.toContain(secret)
    }
  })
})

describe('a write or read whose database fails', () => {
  it('is 503 without a word about it', async () => {
    const { listener, database, log } = await testVault()
    const user = await VaultUser.logIn(listener, walletOf(1))
    // Of a user without entries it is known without a look at them.
    await user.post('a', 'a').expect(201)
    database.exec('DROP TABLE entries')
    for (const answer of [
      await user.post('a', 'a'),
      await user.put('a', 'a'),
      await user.delete('a'),
      await user.read('a'),
      await user.get('keys'),
      await user.get('backup')
    ]) {
      expect([answer.status, answer.text]).toEqual([503, 'Store unavailable, try again'])
      expect(answer.headers).not.toHaveProperty('etag')
      expect(answer.headers['retry-after']).toBe('5')
    }
    expect(log().filter(({ event }) => event === 'request-failed')).toHaveLength(6)
  })
})

describe('the tables of the vault', () => {
  it('are created once, and refused when a later version made them', () => {
    const database = new Database(':memory:')
    createVaultTables(database)
    createVaultTables(database)
    database.exec('UPDATE vault_version SET version = 2')
    expect(() => {
      createVaultTables(database)
    }).toThrow("The vault's database has tables of version 2, this server knows 1")
  })
})
