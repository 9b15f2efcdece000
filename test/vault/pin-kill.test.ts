import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { ContentStore } from '../../servers/shared/content/content-store.js'
import { openDatabase } from '../../servers/shared/content/database.js'
import { Dictionary } from '../support/dictionary.js'
import { startFaultyNode, type FaultyIpfsNode } from '../support/faulty-ipfs-node.js'
import { logIn } from '../support/server-client.js'
import { ServerProcesses } from '../support/server-process.js'
import { temporaryFolder } from '../support/store-folder.js'
import { findVaultLosses, startVaultLoad, type LoadUser } from '../support/vault-load.js'
import { faultsInside } from '../support/vault-parts.js'
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

describe('a vault server that is killed under load', () => {
  it('has lost nothing that it acknowledged, kept nothing by halves, and brings its pins in step', async () => {
    const server = await servers.start({}, [], 'vault')
    const users: LoadUser[] = []
    for (let user = 0; user < 6; user += 1) {
      const { did } = walletOf(31_000 + user)
      const { accessToken } = await logIn(server.url, walletOf(31_000 + user), domain)
      users.push({ did, accessToken, model: new Dictionary(), uncertain: undefined })
    }
    const load = startVaultLoad(server.url, users)
    while (load.acknowledged() < 60) await pause(5)
    server.signal('SIGKILL')
    await load.stop()
    expect(load.wrongAnswers).toEqual([])

    const again = await servers.start({}, [], 'vault')
    const database = openDatabase(join(folder.path, 'vault', 'vault.db'))
    const open = database.prepare("SELECT count(*) FROM vault_pins WHERE state <> 'pinned'").pluck()
    for (let tenth = 0; tenth < 100 && open.get() !== 0; tenth += 1) await pause(100)
    expect(open.get()).toBe(0)
    expect([...node.pins].sort()).toEqual(
      database.prepare('SELECT DISTINCT cid FROM entries ORDER BY cid').pluck().all()
    )
    expect(await findVaultLosses(again.url, users)).toEqual([])
    expect(faultsInside({ database, contents: new ContentStore(database) })).toEqual([])
    database.close()
  })
})
