import type { ServerEnv, ServerName } from './config/read-env.js'
import { assertIpfsClientInstalled } from './ipfs/load-ipfs-client.js'
import type { Starter } from './process/run-servers.js'
import { reasonOf, sentenceOf, StartError } from './config/startup-error.js'
import { silenceSqliteWarning } from './observability/node-warnings.js'

const USAGE = `usage: express-did-auth-servers <command>

  auth    the authentication server (port 3000)
  relay   the file relay (port 3001)
  vault   the data vault (port 3002)
  all     the three of them in one process

  vault reconcile [--dry-run]        makes the pins of the IPFS node those of the vault's entries
  vault takedown <cid> [--dry-run]   removes content from all entries, and from the IPFS node
  relay takedown <cid> [--allow] [--dry-run]
                                     removes a file and refuses it from then on, or allows it again

  --version                          prints the version

All settings are environment variables, see the README.`

/** Loaded when they are needed, because each takes its time. */
const starters: Readonly<Record<ServerName, () => Promise<Starter['start']>>> = {
  auth: async () => (await import('./auth/main.js')).startAuth,
  relay: async () => (await import('./relay/main.js')).startRelay,
  vault: async () => (await import('./vault/main.js')).startVault
}
type OperatorCommand = (args: readonly string[], env: ServerEnv, out: (line: string) => void) => Promise<number>
/** What an operator runs beside a server. */
const operatorCommands: Readonly<Record<'relay' | 'vault', readonly string[]>> = {
  relay: ['takedown'],
  vault: ['reconcile', 'takedown']
}
const names: readonly ServerName[] = ['auth', 'relay', 'vault']

/** Runs the servers that a command names, until a signal stops them. */
async function runStarters(chosen: readonly ServerName[], isAll: boolean): Promise<void> {
  if (hasIpfsNode() && chosen.some((name) => name !== 'auth')) assertIpfsClientInstalled()
  const { runServers } = await import('./process/run-servers.js')
  await runServers(await Promise.all(chosen.map(async (name) => ({ name, start: await starters[name]() }))), isAll)
}

/** Runs an operator's command on relay or vault, and answers its exit code. */
async function runForOperator(name: 'relay' | 'vault', args: readonly string[]): Promise<number> {
  if (hasIpfsNode()) assertIpfsClientInstalled()
  const { readEnv } = await import('./config/read-env.js')
  const runCommand: OperatorCommand =
    name === 'relay'
      ? (await import('./relay/command.js')).runRelayCommand
      : (await import('./vault/admin/command.js')).runVaultCommand
  const env = readEnv(process.env, name, false)
  try {
    return await runCommand(args, env, (line) => {
      process.stdout.write(`${line}\n`)
    })
  } catch (error) {
    if (error instanceof StartError) throw error
    const reason = reasonOf(error)
    throw new StartError(`${name} ${args[0] ?? ''} failed on the ${name} in ${env.DATA_DIR} (DATA_DIR): ${reason}`)
  }
}

/** Does what the command line says, and answers the exit code once that is known. */
async function run(args: readonly string[]): Promise<number | undefined> {
  const [command = '', ...rest] = args
  const chosen = command === 'all' ? names : names.filter((name) => name === command)
  if ((command === 'relay' || command === 'vault') && operatorCommands[command].includes(rest[0] ?? '')) {
    return runForOperator(command, rest)
  }
  if (chosen.length > 0 && rest.length === 0) {
    await runStarters(chosen, command === 'all')
    return undefined
  }
  const isHelp = (command === '--help' || command === '-h') && rest.length === 0
  process[isHelp ? 'stdout' : 'stderr'].write(`${USAGE}\n`)
  return isHelp ? 0 : 2
}

function hasIpfsNode(): boolean {
  const { IPFS_API_URL: url = '', IPFS_API_URL_FILE: file = '' } = process.env
  return url !== '' || file !== ''
}

silenceSqliteWarning()
run(process.argv.slice(2)).then(
  (code) => {
    if (code !== undefined) process.exitCode = code
  },
  (error: unknown) => {
    process.stderr.write(`${sentenceOf(error)}\n`)
    process.exit(1)
  }
)
