import { beforeAll, describe, expect, it, afterAll } from '@jest/globals'
import { runForAll } from '../../support/fixtures/until.js'
import { rounds } from '../../support/fixtures/time-factor.js'
import { crashAt, crashPoints, startVaultWithNode, type VaultWithNode } from '../../support/servers/vault-with-node.js'
import { setTimeout as pause } from 'node:timers/promises'
import { runCli } from '../../support/servers/server-process.js'
import { findVaultLosses, startVaultLoad } from '../../support/models/vault-load.js'

describe('a vault that is killed', () => {
  let outcomes: unknown[] = []
  // Each point runs two processes.
  beforeAll(async () => {
    outcomes = await runForAll(crashPoints, async (point) => {
      const faults: string[] = []
      for (let round = 0; round < rounds(1, 20); round += 1) faults.push(...(await crashAt(point)))
      return faults
    })
  })

  it.each(crashPoints.map(({ name }, place) => [name, place] as const))(
    'keeps every committed write, and brings the node in line: %s',
    (_name, place) => expect(outcomes[place]).toEqual([])
  )
})

describe('the command vault reconcile', () => {
  let vault: VaultWithNode

  beforeAll(async () => {
    vault = await startVaultWithNode()
  })
  afterAll(() => vault.stop())

  it('finds nothing wrong while a server writes, and does not disturb the writes of users', async () => {
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
    const [database, content, index, objects, pins, node] = stdout.split('\n')
    expect([database, index, objects, pins]).toEqual([
      'database: sound',
      'index: correct for all users',
      'objects: all in use',
      'pins: match the stored content'
    ])
    expect(content).toMatch(/^content: \d+ contents? in use, all undamaged$/)
    // A pin that was added and removed during the listing counts as another pin.
    expect(node).toMatch(/^IPFS node: has all pins of this vault, \w+ other pins?$/)
    expect(load.wrongAnswers).toEqual([])
    expect(await findVaultLosses(server.url, users)).toEqual([])
    expect(await vault.findFaults()).toEqual([])
  })
})
