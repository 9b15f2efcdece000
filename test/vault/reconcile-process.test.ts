import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals'
import { setTimeout as pause } from 'node:timers/promises'
import { Dictionary } from '../support/dictionary.js'
import { startFaultyNode, type FaultyIpfsNode } from '../support/faulty-ipfs-node.js'
import { logIn } from '../support/server-client.js'
import { runCli, ServerProcesses } from '../support/server-process.js'
import { temporaryFolder } from '../support/store-folder.js'
import { findVaultLosses, startVaultLoad, type LoadUser } from '../support/vault-load.js'
import { walletOf } from '../support/wallet.js'

// Processes that start beside each other on a slow machine.
jest.setTimeout(60_000)

const domain = 'vault.example'
const folder = temporaryFolder()
let node: FaultyIpfsNode
let servers: ServerProcesses

beforeAll(async () => {
  node = await startFaultyNode()
  servers = new ServerProcesses({
    DATA_DIR: folder.path,
    SERVICE_URL: `https://${domain}`,
    LOG_LEVEL: 'warn',
    IPFS_API_URL: node.url,
    MAX_REQUESTS_PER_TIME_SLOT: '1000000'
  })
})
afterAll(async () => {
  await servers.killAll()
  await node.stop()
  folder.remove()
})

describe('express-did-auth vault reconcile', () => {
  it('finds nothing wrong beside a server that writes, and disturbs nobody', async () => {
    const server = await servers.start({}, [], 'vault')
    const users: LoadUser[] = []
    for (let user = 0; user < 4; user += 1) {
      const { did } = walletOf(30_000 + user)
      const { accessToken } = await logIn(server.url, walletOf(30_000 + user), domain)
      users.push({ did, accessToken, model: new Dictionary(), uncertain: undefined })
    }
    const load = startVaultLoad(server.url, users)
    while (load.acknowledged() < 20) await pause(10)
    const { code, stdout, stderr } = await runCli(['vault', 'reconcile'], {
      DATA_DIR: folder.path,
      IPFS_API_URL: node.url
    })
    const acknowledged = load.acknowledged()
    while (load.acknowledged() < acknowledged + 20) await pause(10)
    await load.stop()
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout.split('\n')).toEqual([
      expect.stringMatching(/^content: \d+ contents in entries, all undamaged$/),
      'blocks: all used and counted right',
      'counters: right for all users',
      'pins: wanted for all content and nothing else',
      // A pin that came and went while the node was asked counts as one of others.
      expect.stringMatching(/^IPFS node: has all pins of this vault, \w+ pins? of others left alone$/),
      'outbox: nothing pending',
      ''
    ])
    expect(load.wrongAnswers).toEqual([])
    expect(await findVaultLosses(server.url, users)).toEqual([])
  })

  it('ends with 1 and one sentence where there is no vault', async () => {
    const ended = await runCli(['vault', 'reconcile'], { DATA_DIR: `${folder.path}/elsewhere` })
    expect(ended.code).toBe(1)
    expect(ended.stderr).toMatch(/^There is no vault in .*vault\.db \(DATA_DIR\)\n$/)
  })
})
