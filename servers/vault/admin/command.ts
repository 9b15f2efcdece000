import { ownCommand } from '../../config/startup-error.js'
import type { ServerEnv } from '../../config/read-env.js'
import { ipfsHttpNode } from '../../ipfs/ipfs-rpc-client.js'
import { Connections } from '../../storage/connections.js'
import { openExistingContents } from '../../storage/engine.js'
import { reconcile } from './reconcile.js'

/**
 * `vault reconcile`, also beside its server: changes the database and the pin ledger; the server carries out what the ledger
 * says.
 *
 * @param args - what follows `reconcile`
 * @param out - gets each line of the report
 * @returns the exit code: 0 all is in order, 1 it is not, 2 usage
 * @throws StartError when there is no vault, or its database cannot be opened
 */
export async function runReconcile(
  args: readonly string[],
  env: ServerEnv,
  out: (line: string) => void
): Promise<number> {
  const [isDryRun, acceptsDamage] = [args.includes('--dry-run'), args.includes('--accept-damage')]
  if (args.some((arg) => arg !== '--dry-run' && arg !== '--accept-damage')) {
    out(`usage: ${ownCommand('vault reconcile [--accept-damage] [--dry-run]')}`)
    return 2
  }
  const connections = await Connections.open(env)
  const { store, inspection } = await openExistingContents(env, connections)
  const node = env.IPFS_API_URL === undefined ? undefined : ipfsHttpNode(env.IPFS_API_URL)
  try {
    return (await reconcile({ store, inspection, node, isDryRun, acceptsDamage }, out)) ? 0 : 1
  } finally {
    node?.close()
    await store.close()
    await connections.close()
  }
}
