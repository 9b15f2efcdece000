import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { once } from 'node:events'
import { request, type IncomingMessage } from 'node:http'
import { openContentStore } from '../../../servers/content/sql/open-sqlite-contents.js'
import { closeServices, servingPort } from '../../support/servers/server-client.js'
import { temporaryFolder } from '../../support/fixtures/store-folder.js'
import { fillVault, testVault, VaultUser, type TestVault } from '../../support/servers/vault-app.js'

/** List that exceeds the socket buffers of server and client. */
const LONG_LIST = Array.from({ length: 12 }, (_, number) => `${number}`.padEnd(1_048_576, 'x'))
/** Numbers of responses of 1 MiB that fit into a quarter of 128 MiB, and into 128 MiB. */
const [SHARE, ALL] = [32, 128]

const folder = temporaryFolder()
/** Runs before a list is read. */
let beforeList: () => Promise<unknown> = () => Promise.resolve()
let behindProxy: TestVault
let withoutProxy: TestVault
let ports: ReadonlyMap<TestVault, number>
let user: VaultUser

beforeAll(async () => {
  const opened = await openContentStore({ folder: folder.path, database: 'vault.db' })
  const listEntries: typeof opened.store.listEntries = async (place) => {
    await beforeList()
    return opened.store.listEntries(place)
  }
  const contents = { ...opened, store: { ...opened.store, listEntries } }
  behindProxy = await testVault({ TRUST_PROXY: '1' }, { contents })
  withoutProxy = await testVault({}, { contents })
  const vaults = [behindProxy, withoutProxy]
  ports = new Map(await Promise.all(vaults.map(async (vault) => [vault, await servingPort(vault.listener)] as const)))
  user = await VaultUser.new(behindProxy)
  const manyEntries = Array.from({ length: 9 }, (_, number) => ['many', `entry ${number}`] as const)
  await fillVault(behindProxy, user.did, [...LONG_LIST.map((content) => ['long', content] as const), ...manyEntries])
})
afterAll(async () => {
  closeServices()
  await withoutProxy.close()
  await behindProxy.close()
  folder.remove()
})

/** Opens a response on a separate connection, and reads nothing of it. */
async function open(vault: TestVault, path: string, address: string): Promise<IncomingMessage> {
  const headers = { 'X-Forwarded-For': address, Authorization: user.authorization }
  const req = request({ port: ports.get(vault), host: '127.0.0.1', path, agent: false, headers }).end()
  const [answer] = (await once(req, 'response')) as [IncomingMessage]
  return answer.on('error', () => undefined)
}

/** Opens unread responses until the vault refuses one, and at most one more than fits into all memory. */
async function openUntilRefused(vault: TestVault, getAddress: (number: number) => string) {
  const openAnswers: IncomingMessage[] = []
  for (let status = 200; status === 200 && openAnswers.length <= ALL;) {
    const answer = await open(vault, `/${user.did}/long`, getAddress(openAnswers.length))
    status = answer.statusCode ?? 0
    if (status === 200) openAnswers.push(answer)
    else answer.destroy()
  }
  return { count: openAnswers.length, leave: () => openAnswers.map((answer) => answer.destroy()) }
}

describe('clients of one network that read slowly', () => {
  it('get a quarter of the memory, while a client of another network is answered', async () => {
    const { count, leave } = await openUntilRefused(behindProxy, (number) => `2001:db8::${number + 1}`)
    expect(count).toBeGreaterThan(SHARE / 2)
    expect(count).toBeLessThanOrEqual(SHARE)
    for (const path of [`/${user.did}/long`, '/backup', '/keys']) {
      const answer = await open(behindProxy, path, '2001:db8:0:1::1')
      expect([path, answer.statusCode]).toEqual([path, 200])
      answer.destroy()
    }
    expect((await open(behindProxy, '/backup', '2001:db8::ffff')).statusCode).toBe(503)
    leave()
  })

  it('get no more memory by a header that no proxy set', async () => {
    const { count, leave } = await openUntilRefused(withoutProxy, (number) => `192.0.2.${number}`)
    expect(count).toBeLessThanOrEqual(SHARE)
    leave()
  })

  it('wait for their own turns, while a client of another network is answered', async () => {
    let [waiting, openGate] = [0, (): void => undefined]
    const gate = new Promise<void>((resolve) => (openGate = resolve))
    beforeList = () => ((waiting += 1), gate)
    const crowd = Array.from({ length: 30 }, () => open(behindProxy, `/${user.did}/many`, '192.0.2.1'))
    while (waiting < 2) await new Promise(setImmediate)
    beforeList = () => Promise.resolve()
    expect((await open(behindProxy, `/${user.did}/many`, '192.0.2.2')).statusCode).toBe(200)
    openGate()
    expect((await Promise.all(crowd)).map(({ statusCode }) => statusCode)).toEqual(Array(30).fill(200))
  })
})
