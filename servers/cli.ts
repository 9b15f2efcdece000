import { accessSync, constants, statSync } from 'node:fs'
import type { ServerEnv, ServerName } from './config/read-env.js'
import { assertIpfsClientInstalled } from './ipfs/load-ipfs-client.js'
import type { Starter } from './process/run-servers.js'
import { UsageError, type CommandLine } from './commands/command-line.js'
import { ownCommand, reasonOf, sentenceOf, StartError, startStep } from './config/startup-error.js'

/** What each command takes. A line that is further indented belongs to the one before it. */
const USAGE = `  auth    the authentication server (port 3000)
  relay   the file relay (port 3001)
  vault   the data vault (port 3002)
  all     the three of them in one process
  vault reconcile [--accept-damage] [--dry-run]
          makes the pins of the IPFS node those of the vault's entries
  vault takedown <cid> [--allow] [--dry-run]
          removes content from all entries and refuses it, or allows it again
  relay takedown <cid> [--allow] [--dry-run]
          removes a file and refuses it from then on, or allows it again
  migrate [--check|--print]
          brings the tables of DATABASE_URL up to date, says whether they are, or prints the SQL
  copy [--from <DATA_DIR>]
          copies contents that one machine stored in DATA_DIR to DATABASE_URL (and the bucket)
  keys new [--network <name>] [--out <file>] [--json]
          makes a new PRIVATE_KEY, CHALLENGE_SECRET and SERVICE_DID
  doctor [<url>] [--origin <origin>]… [--server <name>] [--json]
          finds what is wrong with the environment, or with a running service
  conformance <url> [--protected <path>] [--domain <domain>] [--sign-up] [--wait <seconds>] [--json]
          asks any service of this protocol whether it keeps the rules`

/** The usage of one command; of all where there is no such command. */
function usageOf(command: string): string {
  const all = USAGE.split(/\n(?= {2}\S)/)
  const own = all.filter((one) => one.trim().split(' ', 1)[0] === command)
  return `usage: ${ownCommand('<command>')}

${(own.length > 0 ? own : all).join('\n')}

  --help     prints this text, behind a command its own
  --version  prints the version

All settings are environment variables, also those in .env, see the README.
Exit codes: 0 done, 1 failed or something was found, 2 usage.\n`
}

/** Loaded when they are needed, because each takes its time. */
const starters: Readonly<Record<ServerName, () => Promise<Starter['start']>>> = {
  auth: async () => (await import('./auth/main.js')).startAuth,
  relay: async () => (await import('./relay/app.js')).startRelay,
  vault: async () => (await import('./vault/app.js')).startVault
}
type OperatorCommand = (args: readonly string[], env: ServerEnv, out: (line: string) => void) => Promise<number>
/** What an operator runs beside a server. */
const operatorCommands: Readonly<Record<string, () => Promise<OperatorCommand>>> = {
  'relay takedown': async () => (await import('./process/takedown-command.js')).runTakedown,
  'vault takedown': async () => (await import('./process/takedown-command.js')).runTakedown,
  'vault reconcile': async () => (await import('./vault/admin/command.js')).runReconcile
}
const names: readonly ServerName[] = ['auth', 'relay', 'vault']
/** What needs no server. */
const commands: Readonly<Record<string, () => Promise<(commandLine: CommandLine) => Promise<number>>>> = {
  migrate: async () => (await import('./commands/migrate.js')).runMigrate,
  copy: async () => (await import('./commands/copy.js')).runCopy,
  keys: async () => (await import('./commands/keys.js')).runKeys,
  doctor: async () => (await import('./commands/doctor/command.js')).runDoctor,
  conformance: async () => (await import('./commands/conformance/command.js')).runConformance
}

const ENV_FILE = '.env'
/**
 * Loads the variables of `.env` in the working directory, as `keys new --out .env` writes them, into `process.env`. What the
 * environment has already wins.
 *
 * @returns the file's name; undefined where there is none
 * @throws StartError when it cannot be read
 */
function loadEnvFile(): string | undefined {
  const found = statSync(ENV_FILE, { throwIfNoEntry: false })
  // Python has folders of this name.
  if (found === undefined || found.isDirectory()) return undefined
  startStep(`Cannot read ${ENV_FILE}`, () => {
    accessSync(ENV_FILE, constants.R_OK)
    process.loadEnvFile(ENV_FILE)
  })
  return ENV_FILE
}

/** Runs the servers that a command names, until a signal stops them. */
async function runStarters(chosen: readonly ServerName[], isAll: boolean, envFile: string | undefined): Promise<void> {
  if (hasIpfsNode() && chosen.some((name) => name !== 'auth')) assertIpfsClientInstalled()
  const { runServers } = await import('./process/run-servers.js')
  const loaded = await Promise.all(chosen.map(async (name) => ({ name, start: await starters[name]() })))
  await runServers(loaded, { isAll, envFile })
}

/** Runs an operator's command on relay or vault, and answers its exit code. */
async function runForOperator(
  load: () => Promise<OperatorCommand>,
  [name, command = '', ...args]: ['relay' | 'vault', ...string[]]
): Promise<number> {
  if (hasIpfsNode()) assertIpfsClientInstalled()
  const { readEnv } = await import('./config/read-env.js')
  const runCommand = await load()
  const env = readEnv(process.env, name, false, 'operate')
  try {
    return await runCommand(args, env, (line) => {
      process.stdout.write(`${line}\n`)
    })
  } catch (error) {
    if (error instanceof StartError) throw error
    const reason = reasonOf(error)
    throw new StartError(`${name} ${command} failed on the ${name} in ${env.DATA_DIR} (DATA_DIR): ${reason}`)
  }
}

/** Does what the command line says, and answers the exit code once that is known. */
async function run(args: readonly string[]): Promise<number | undefined> {
  const [command = '', ...rest] = args
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(usageOf(command))
    return 0
  }
  const envFile = loadEnvFile()
  const chosen = command === 'all' ? names : names.filter((name) => name === command)
  const operatorCommand = operatorCommands[`${command} ${rest[0] ?? ''}`]
  if (operatorCommand !== undefined) return runForOperator(operatorCommand, [command as 'relay' | 'vault', ...rest])
  if (chosen.length > 0 && rest.length === 0) {
    await runStarters(chosen, command === 'all', envFile)
    return undefined
  }
  if (Object.hasOwn(commands, command)) return runCommand(command, rest)
  process.stderr.write(usageOf(command))
  return 2
}

/** Runs a command that needs no server, and answers its exit code. */
async function runCommand(name: string, args: readonly string[]): Promise<number> {
  const load = commands[name]
  try {
    if (load === undefined) throw new UsageError(`There is no command ${name}`)
    const out = (line: string): void => {
      process.stdout.write(`${line}\n`)
    }
    return await (
      await load()
    )({ args, env: process.env, out, isTerminal: process.stdout.isTTY })
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    process.stderr.write(`${error.message}\n\n${usageOf(name)}`)
    return 2
  }
}

function hasIpfsNode(): boolean {
  const { IPFS_API_URL: url = '', IPFS_API_URL_FILE: file = '' } = process.env
  return url !== '' || file !== ''
}

/**
 * Keeps one warning off standard error: that `node:sqlite` is experimental. The servers are tested with it on each Node that
 * has it, and an operator can do nothing about it. All other warnings are printed.
 */
function silenceSqliteWarning(): void {
  const emit = process.emitWarning.bind(process) as (warning: string | Error, ...rest: unknown[]) => void
  process.emitWarning = (warning: string | Error, ...rest: unknown[]): void => {
    const message = typeof warning === 'string' ? warning : warning.message
    if (!message.startsWith('SQLite is an experimental feature')) emit(warning, ...rest)
  }
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
