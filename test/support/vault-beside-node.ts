import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { Dictionary } from './dictionary.js'
import { drainPins, endLeases } from './drain-pins.js'
import { startFaultyNode, type FaultyIpfsNode, type FaultyNodeOptions } from './faulty-ipfs-node.js'
import { findVaultFaults } from './run-vault-command.js'
import { logIn } from './server-client.js'
import { ServerProcesses, type ServerProcess } from './server-process.js'
import { temporaryFolder } from './store-folder.js'
import type { LoadUser } from './vault-load.js'
import { walletOf } from './wallet.js'

const DOMAIN = 'vault.example'

/** Processes of a vault with an IPFS node beside them, in a folder of their own. */
export interface VaultBesideNode {
  folder: string
  node: FaultyIpfsNode
  /** Starts a process on what the one before it left, 20 s after that was killed. */
  start(): Promise<ServerProcess>
  /** So many users with an access token, who have written nothing. */
  logIn(url: string, count: number, firstWallet: number): Promise<LoadUser[]>
  /** Waits until the node has what is stored, and answers what is wrong then. */
  findFaults(): Promise<string[]>
  stop(): Promise<void>
}

export async function vaultBesideNode(
  env: Record<string, string> = {},
  options: FaultyNodeOptions = {}
): Promise<VaultBesideNode> {
  const folder = temporaryFolder()
  const node = await startFaultyNode(options)
  const file = join(folder.path, 'vault', 'vault.db')
  const servers = new ServerProcesses({
    DATA_DIR: folder.path,
    SERVICE_URL: `https://${DOMAIN}`,
    LOG_LEVEL: 'warn',
    IPFS_API_URL: node.url,
    MAX_REQUESTS_PER_TIME_SLOT: '10000000',
    ...env
  })
  return {
    folder: folder.path,
    node,
    start: () => {
      if (existsSync(file)) endLeases(file)
      return servers.start({}, [], 'vault')
    },
    async logIn(url, count, firstWallet) {
      const users: LoadUser[] = []
      for (let number = 0; number < count; number += 1) {
        const wallet = walletOf(firstWallet + number)
        const { accessToken } = await logIn(url, wallet, DOMAIN)
        users.push({ did: wallet.did, accessToken, model: new Dictionary(), uncertain: undefined })
      }
      return users
    },
    findFaults: async () => [
      ...(await drainPins(file, () => node.pins)),
      ...(await findVaultFaults({ DATA_DIR: folder.path, IPFS_API_URL: node.url }))
    ],
    async stop() {
      await servers.killAll()
      await node.stop()
      folder.remove()
    }
  }
}
