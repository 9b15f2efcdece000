import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals'
import { setTimeout as pause } from 'node:timers/promises'
import { runCli } from '../support/server-process.js'
import { vaultBesideNode, type VaultBesideNode } from '../support/vault-beside-node.js'
import { findVaultLosses, startVaultLoad } from '../support/vault-load.js'

// Processes that start beside each other on a slow machine.
jest.setTimeout(60_000)

let vault: VaultBesideNode

beforeAll(async () => {
  vault = await vaultBesideNode()
})
afterAll(() => vault.stop())

describe('express-did-auth vault reconcile', () => {
  it('finds nothing wrong beside a server that writes, and disturbs nobody', async () => {
    const server = await vault.start()
    const users = await vault.logIn(server.url, 4, 30_000)
    const load = startVaultLoad(server.url, users)
    while (load.acknowledged() < 20) await pause(10)
    const { code, stdout, stderr } = await runCli(['vault', 'reconcile'], {
      DATA_DIR: vault.folder,
      IPFS_API_URL: vault.node.url
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
      // What was just written may still be under way to the node.
      expect.stringMatching(
        /^IPFS node: has all (pins of this vault|that was pinned before, \d+ contents? still to pin), \w+ pins? of others left alone$/
      ),
      'outbox: nothing pending',
      ''
    ])
    expect(load.wrongAnswers).toEqual([])
    expect(await findVaultLosses(server.url, users)).toEqual([])
  })

  it('ends with 1 and one sentence where there is no vault', async () => {
    const ended = await runCli(['vault', 'reconcile'], { DATA_DIR: `${vault.folder}/elsewhere` })
    expect(ended.code).toBe(1)
    expect(ended.stderr).toMatch(/^There is no vault in .*vault\.db \(DATA_DIR\)\n$/)
  })
})
