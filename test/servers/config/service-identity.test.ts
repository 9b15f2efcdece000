import { describe, expect, it } from '@jest/globals'
import { readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadIdentity } from '../../../servers/config/service-identity.js'
import { folderOfEachTest } from '../../support/fixtures/folder-of-each-test.js'
import { resourceKey } from '../../support/servers/test-app.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const coordinate = expect.stringMatching(/^[\w-]{43}$/)

describe('loadIdentity', () => {
  const folder = folderOfEachTest()
  const load = (options: Partial<Parameters<typeof loadIdentity>[0]> = {}): ReturnType<typeof loadIdentity> =>
    loadIdentity({ DATA_DIR: folder.path, ...options })

  it('creates key and secret once, readable only by their owner, and no other file', async () => {
    const DATA_DIR = join(folder.path, 'made', 'here')
    const identity = await load({ DATA_DIR })
    expect(identity.privateKey).toMatch(/^[0-9a-f]{64}$/)
    expect(identity.challengeSecret).toMatch(/^[0-9a-f]{64}$/)
    expect(identity.challengeSecret).not.toBe(identity.privateKey)
    expect(await load({ DATA_DIR })).toEqual(identity)
    expect(readdirSync(DATA_DIR)).toEqual(['challenge-secret', 'private-key'])
    for (const file of readdirSync(DATA_DIR)) expect(statSync(join(DATA_DIR, file)).mode & 0o777).toBe(0o600)
    expect(statSync(DATA_DIR).mode & 0o777).toBe(0o700)
  })

  it('derives the DID from the key, on rsk or the configured network', async () => {
    const { privateKey, did } = createNumberedWallet(7)
    const [PRIVATE_KEY, address] = [[privateKey], did.slice(-42)]
    expect((await load({ PRIVATE_KEY })).serviceDid).toBe(`did:ethr:rsk:${address}`)
    expect((await load({ PRIVATE_KEY, NETWORK_NAME: 'sepolia' })).serviceDid).toBe(`did:ethr:sepolia:${address}`)
    expect((await load({ PRIVATE_KEY, NETWORK_NAME: 'ethereum' })).serviceDid).toBe(`did:ethr:${address}`)
    expect((await load({ PRIVATE_KEY, SERVICE_DID: 'did:web:a' })).serviceDid).toBe('did:web:a')
  })

  it('creates a key for resource tokens only for auth, and none if instances have to share it', async () => {
    const { resourceKeys } = await load({ name: 'auth' })
    expect(resourceKeys).toEqual([{ kty: 'EC', crv: 'P-256', x: coordinate, y: coordinate, d: coordinate }])
    expect((await load({ name: 'auth' })).resourceKeys).toEqual(resourceKeys)
    expect(statSync(join(folder.path, 'resource-key')).mode & 0o777).toBe(0o600)
    expect((await load({ name: 'vault' })).resourceKeys).toEqual([])
    expect((await load({ name: 'auth', DATABASE_URL: 'postgres://db.example/x' })).resourceKeys).toEqual([])
  })

  it('uses the keys of RESOURCE_KEY in their order', async () => {
    const keys = [1, 2].map((number) => Buffer.alloc(32, number).toString('hex'))
    const { resourceKeys } = await load({ name: 'auth', RESOURCE_KEY: keys })
    expect(resourceKeys).toEqual([resourceKey(1), resourceKey(2)])
    expect(readdirSync(folder.path)).not.toContain('resource-key')
    await expect(load({ name: 'auth', RESOURCE_KEY: ['f'.repeat(64)] })).rejects.toThrow('Cannot use the folder')
  })

  it('signs with the first of several keys, and returns the DIDs of the others', async () => {
    const [next, previous] = [createNumberedWallet(7), createNumberedWallet(8)]
    const rotated = { serviceDid: next.did, privateKey: next.privateKey, previousServiceDids: [previous.did] }
    expect(await load({ PRIVATE_KEY: [next.privateKey, previous.privateKey] })).toMatchObject(rotated)
    const plain = [next, previous].map(({ privateKey }) => privateKey.slice(2))
    writeFileSync(join(folder.path, 'private-key'), `${plain.join('\n')}\n`)
    expect(await load()).toMatchObject({ ...rotated, privateKey: plain[0] })
    writeFileSync(join(folder.path, 'challenge-secret'), plain.join(','))
    await expect(load()).rejects.toThrow('does not contain a secret of 64 hex digits')
  })

  it('reads several keys of a file, separated by commas or line breaks, and refuses an invalid key', async () => {
    const keys = [1, 2].map((number) => Buffer.alloc(32, number).toString('hex'))
    const file = join(folder.path, 'resource-key')
    for (const separator of [',', '\n', '\r\n']) {
      writeFileSync(file, `${keys.join(separator)}\n`)
      expect((await load({ name: 'auth' })).resourceKeys).toEqual([resourceKey(1), resourceKey(2)])
    }
    writeFileSync(file, `${keys.join()},half-a-key`)
    await expect(load({ name: 'auth' })).rejects.toThrow(`The file ${file} does not contain private keys of P-256`)
  })

  it('shares the keys of auth with each server of its process', async () => {
    const { resourceKeys } = await loadIdentity({ DATA_DIR: folder.path, name: 'auth' }, true)
    const vault = await loadIdentity({ DATA_DIR: folder.path, name: 'vault' }, true)
    expect(vault.resourceKeys).toEqual(resourceKeys)
  })

  it('stores no secret that the environment contains', async () => {
    await load({ PRIVATE_KEY: [createNumberedWallet(7).privateKey], CHALLENGE_SECRET: 'a'.repeat(32) })
    expect(readdirSync(folder.path)).toEqual([])
  })

  it('refuses an invalid file, without showing or replacing it', async () => {
    const file = join(folder.path, 'private-key')
    writeFileSync(file, 'half-a-key')
    await expect(load()).rejects.toThrow(
      `The file ${file} does not contain private keys of secp256k1, 64 hex digits each: restore it, or delete it to create a new identity`
    )
  })

  it('names a file that a crash left short, and its remedy', async () => {
    for (const [name, digits] of [
      ['private-key', 0],
      ['challenge-secret', 12]
    ] as const) {
      const file = join(folder.path, name)
      writeFileSync(file, 'a'.repeat(digits))
      await expect(load()).rejects.toThrow(
        `The file ${file} has ${digits} of 64 digits, because its creation did not finish: delete it, or restore it if the service had already started`
      )
      rmSync(file)
    }
  })

  it.each(['0', 'f'])('refuses a file of 64 times %s, which is no valid key', async (digit) => {
    const file = join(folder.path, 'private-key')
    writeFileSync(file, digit.repeat(64))
    await expect(load()).rejects.toThrow(
      `The file ${file} does not contain private keys of secp256k1, 64 hex digits each: restore it, or delete it to create a new identity`
    )
  })

  it('reports in one sentence that the folder cannot be used', async () => {
    const file = join(folder.path, 'file')
    writeFileSync(file, '')
    const DATA_DIR = join(file, 'data')
    await expect(load({ DATA_DIR })).rejects.toThrow(
      `Cannot use the folder ${DATA_DIR} (DATA_DIR): a part of its path is a file`
    )
    await expect(load({ DATA_DIR: file })).rejects.toThrow('a file with this name exists already')
  })
})
