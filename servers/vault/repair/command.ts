import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import { dataFolder } from '../../shared/login/auth-store.js'
import { isCid } from '../../shared/content/content-blocks.js'
import { ContentStore } from '../../shared/content/content-store.js'
import { openDatabase } from '../../shared/content/database.js'
import { GroupCommit } from '../../shared/content/group-commit.js'
import { ipfsHttpNode } from '../../shared/ipfs/ipfs-http-node.js'
import type { ServerEnv } from '../../shared/environment/read-env.js'
import { StartError } from '../../shared/environment/start-error.js'
import { PinIntents } from '../pins/pin-intents.js'
import { PinOutbox } from '../pins/pin-outbox.js'
import { reconcile, type ReconcileParts } from './reconcile.js'
import { runTakedown } from './run-takedown.js'
import { VaultIndex } from '../vault-index.js'

const USAGE = `usage: express-did-auth vault reconcile [--dry-run]
       express-did-auth vault takedown <cid> [--dry-run]`

type Parts = Omit<ReconcileParts, 'isDryRun' | 'outbox'> & { outbox: PinOutbox | undefined }

/**
 * Runs an operator's command on the vault of the environment, also beside its server.
 *
 * @param args - what follows `express-did-auth vault`
 * @param out - gets each line of the report
 * @returns the exit code: 0 all is in order, 1 it is not, 2 usage
 * @throws StartError when there is no vault
 */
export async function runVaultCommand(
  args: readonly string[],
  env: ServerEnv,
  out: (line: string) => void
): Promise<number> {
  const isDryRun = args.includes('--dry-run')
  const [name, cid, ...rest] = args.filter((arg) => arg !== '--dry-run')
  if (name === 'reconcile' && cid === undefined) {
    return withVault(env, async (parts) => ((await reconcile({ ...parts, isDryRun }, out)) ? 0 : 1))
  }
  if (name === 'takedown' && cid !== undefined && isCid(cid) && rest.length === 0) {
    return withVault(env, (parts) => runTakedown(parts, cid, isDryRun, out))
  }
  out(USAGE)
  return 2
}

async function withVault(env: ServerEnv, use: (parts: Parts) => Promise<number>): Promise<number> {
  const file = join(dataFolder(env), 'vault.db')
  if (!existsSync(file)) throw new StartError(`There is no vault in ${file} (DATA_DIR)`)
  const database = openDatabase(file, { secureDelete: true })
  const node = env.IPFS_API_URL === undefined ? undefined : ipfsHttpNode(env.IPFS_API_URL)
  let outbox: PinOutbox | undefined
  try {
    const index = new VaultIndex(database)
    const contents = new ContentStore(database)
    const intents = new PinIntents(database, new GroupCommit(database))
    const read = (cid: string): Uint8Array | undefined => contents.read(cid)
    // What went wrong with the node is in the report.
    const log = pino({ level: 'silent' })
    outbox = node && new PinOutbox({ intents, node, read, log })
    return await use({ database, index, contents, intents, node, outbox })
  } finally {
    await outbox?.stop()
    node?.close()
    database.close()
  }
}
