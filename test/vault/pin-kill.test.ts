import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { ContentStore } from '../../servers/shared/content/content-store.js'
import { openDatabase } from '../../servers/shared/content/database.js'
import { vaultBesideNode, type VaultBesideNode } from '../support/vault-beside-node.js'
import { findVaultLosses, startVaultLoad } from '../support/vault-load.js'
import { faultsInside } from '../support/vault-parts.js'

// Processes that start beside each other on a slow machine.
jest.setTimeout(60_000)

let vault: VaultBesideNode

beforeAll(async () => {
  vault = await vaultBesideNode()
})
afterAll(() => vault.stop())

describe('a vault server that is killed under load', () => {
  it('has lost nothing that it acknowledged, kept nothing by halves, and brings its pins in step', async () => {
    const server = await vault.start()
    const users = await vault.logIn(server.url, 6, 31_000)
    const load = startVaultLoad(server.url, users)
    while (load.acknowledged() < 60) await pause(5)
    server.signal('SIGKILL')
    await load.stop()
    expect(load.wrongAnswers).toEqual([])

    const again = await vault.start()
    const database = openDatabase(join(vault.folder, 'vault', 'vault.db'))
    const open = database.prepare("SELECT count(*) FROM vault_pins WHERE state <> 'pinned'").pluck()
    for (let tenth = 0; tenth < 100 && open.get() !== 0; tenth += 1) await pause(100)
    expect(open.get()).toBe(0)
    expect([...vault.node.pins].sort()).toEqual(
      database.prepare('SELECT DISTINCT cid FROM entries ORDER BY cid').pluck().all()
    )
    expect(await findVaultLosses(again.url, users)).toEqual([])
    expect(faultsInside({ database, contents: new ContentStore(database) })).toEqual([])
    database.close()
  })
})
