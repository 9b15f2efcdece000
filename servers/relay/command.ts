import { ownCommand } from '../config/own-command.js'
import type { ServerEnv } from '../config/read-env.js'
import { runTakedown } from '../process/takedown-command.js'
import { Engines } from '../storage/engines.js'
import { isCid } from '../storage/unixfs-blocks.js'

const USAGE = `usage: ${ownCommand('relay takedown <cid> [--allow] [--dry-run]')}`

/**
 * Runs an operator's command on the relay of the environment, also beside its server.
 *
 * @param args - what follows `express-did-auth relay`
 * @param out - gets each line of the report
 * @returns the exit code: 0 done, 1 something may remain, 2 usage
 * @throws StartError when there is no relay
 */
export async function runRelayCommand(
  args: readonly string[],
  env: ServerEnv,
  out: (line: string) => void
): Promise<number> {
  const [isAllow, isDryRun] = [args.includes('--allow'), args.includes('--dry-run')]
  const [name, cid = '', ...rest] = args.filter((arg) => arg !== '--allow' && arg !== '--dry-run')
  if (name !== 'takedown' || !isCid(cid) || rest.length > 0) {
    out(USAGE)
    return 2
  }
  const engines = await Engines.open(env)
  engines.assertContents(env)
  const { store } = await engines.openContents(env)
  try {
    const nowSeconds = Math.floor(Date.now() / 1_000)
    return await runTakedown({ store, nouns: ['file', 'files'], nowSeconds }, { cid, isAllow, isDryRun }, out)
  } finally {
    await store.close()
    await engines.close()
  }
}
