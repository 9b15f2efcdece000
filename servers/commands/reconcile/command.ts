import { readEnv } from '../../config/read-env.js'
import { ipfsHttpNode } from '../../ipfs/ipfs-rpc-client.js'
import { assertIpfsClientInstalled } from '../../ipfs/load-ipfs-client.js'
import { Connections } from '../../storage/connections.js'
import { openExistingContents } from '../../storage/engine.js'
import { readArguments, type CommandLine } from '../command-line.js'
import { reconcile } from './reconcile.js'

const OPTIONS = { 'accept-damage': { type: 'boolean' }, 'dry-run': { type: 'boolean' } } as const

/**
 * `vault reconcile`, also beside its server: changes the database and the pin ledger; the server carries out what the ledger
 * says.
 *
 * @returns the exit code: 0 all is in order, 1 it is not
 * @throws UsageError; StartError when there is no vault, or its database cannot be opened
 */
export async function runReconcile({ args, env: given, out }: CommandLine): Promise<number> {
  const { values } = readArguments(args, OPTIONS, [0, 0])
  const [isDryRun, acceptsDamage] = [values['dry-run'] === true, values['accept-damage'] === true]
  const env = readEnv(given, 'vault', false, 'operate')
  if (env.IPFS_API_URL !== undefined) assertIpfsClientInstalled()
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
