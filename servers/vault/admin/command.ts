import { ownCommand } from '../../config/own-command.js'
import type { ServerEnv } from '../../config/read-env.js'
import { ipfsHttpNode } from '../../ipfs/ipfs-rpc-client.js'
import { runTakedown } from '../../process/takedown-command.js'
import { Engines } from '../../storage/engines.js'
import { isCid } from '../../storage/unixfs-blocks.js'
import { reconcile } from './reconcile.js'

const USAGE = `usage: ${ownCommand('vault reconcile [--accept-damage] [--dry-run]')}
       ${ownCommand('vault takedown <cid> [--allow] [--dry-run]')}`

const OPTIONS = ['--dry-run', '--allow', '--accept-damage']

/**
 * Runs an operator's command on the vault of the environment, also beside its server. Commands change the database and
 * the pin ledger; the server carries out what the ledger says.
 *
 * @param args - what follows `express-did-auth vault`
 * @param out - gets each line of the report
 * @returns the exit code: 0 all is in order, 1 it is not, 2 usage
 * @throws StartError when there is no vault, or its database cannot be opened
 */
export async function runVaultCommand(
  args: readonly string[],
  env: ServerEnv,
  out: (line: string) => void
): Promise<number> {
  const [isDryRun, isAllow] = [args.includes('--dry-run'), args.includes('--allow')]
  const [name, cid, ...rest] = args.filter((arg) => !OPTIONS.includes(arg))
  const acceptsDamage = args.includes('--accept-damage')
  const isReconcile = name === 'reconcile' && cid === undefined && !isAllow
  const isTakedown = name === 'takedown' && cid !== undefined && isCid(cid) && rest.length === 0 && !acceptsDamage
  if (!isReconcile && !isTakedown) {
    out(USAGE)
    return 2
  }
  const engines = await Engines.open(env)
  engines.assertContents(env)
  const { store, inspection } = await engines.openContents(env)
  const node = env.IPFS_API_URL === undefined ? undefined : ipfsHttpNode(env.IPFS_API_URL)
  try {
    if (isTakedown) {
      const nowSeconds = Math.floor(Date.now() / 1_000)
      return await runTakedown({ store, nouns: ['entry', 'entries'], nowSeconds }, { cid, isAllow, isDryRun }, out)
    }
    return (await reconcile({ store, inspection, node, isDryRun, acceptsDamage }, out)) ? 0 : 1
  } finally {
    node?.close()
    await store.close()
    await engines.close()
  }
}
