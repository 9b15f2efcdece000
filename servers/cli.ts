import { readFileSync, statSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { readArguments, UsageError, type CommandLine } from './commands/command-line.js'
import { findUnknownVariables, type EnvFile, type ServerName } from './config/read-env.js'
import { ownCommand, describeFailure, startStep } from './config/startup-error.js'
import type { Starters } from './process/run-servers.js'

/** Usage of each command. A line that is further indented belongs to the line before it. */
const USAGE = `  auth    the authentication server (port 3000)
  relay   the file relay (port 3001)
  vault   the data vault (port 3002)
  all     all three in one process
  vault reconcile [--accept-damage] [--dry-run]
          compares and repairs content, lists and pins
  vault takedown <cid or link> [--allow] [--dry-run]
          removes content from all entries and refuses it, or allows it again
  relay takedown <cid or link> [--allow] [--dry-run]
          removes a file and refuses it from then on, or allows it again
  migrate [--check|--print]
          updates the tables of DATABASE_URL, checks them, or prints the SQL
  copy [--from <DATA_DIR>]
          copies contents that one machine stored in DATA_DIR to DATABASE_URL (and the bucket)
  keys new [--network <name>] [--out <file>] [--json]
          makes a new PRIVATE_KEY, CHALLENGE_SECRET and RESOURCE_KEY, for .env
  doctor [<url>] [--origin <origin>]… [--server <name>] [--json]
          finds what is wrong with the environment, or with a running service
  conformance <url> [--protected <path>] [--domain <domain>] [--sign-up] [--wait <seconds>] [--json]
          checks whether a service keeps the rules of this protocol
  conformance --siwe <url> [--siwe-nonce-path <path>] [--siwe-verify-path <path>] [--domain <domain>] [--json]
          checks a backend of EIP-4361 with /nonce and /verify below the URL`

/** Returns the usage of one command; of all commands if there is no such command. */
function describeUsage(command: string): string {
  const all = USAGE.split(/\n(?= {2}\S)/)
  const own = all.filter((one) => one.trim().split(' ', 1)[0] === command)
  return `usage: ${ownCommand('<command>')}

${(own.length > 0 ? own : all).join('\n')}

  --help     prints this text; after a command, its usage
  --version  prints the version

All settings are variables, from the environment or .env: see the README.
Exit codes: 0 done, 1 failed or found a problem, 2 wrong arguments.\n`
}

/** @returns the exit code; undefined: the process runs until a signal ends it */
type Command = (commandLine: CommandLine) => Promise<number | undefined>

// Loaded when they are needed, because each takes its time.
const starters: Starters = {
  auth: async () => (await import('./auth/app.js')).startAuth,
  relay: async () => (await import('./relay/app.js')).startRelay,
  vault: async () => (await import('./vault/app.js')).startVault
}
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  auth: serveUntilSignal(['auth']),
  relay: serveUntilSignal(['relay']),
  vault: serveUntilSignal(['vault']),
  all: serveUntilSignal(['auth', 'relay', 'vault']),
  'relay takedown': async () => (await import('./commands/takedown.js')).createTakedownCommand('relay'),
  'vault takedown': async () => (await import('./commands/takedown.js')).createTakedownCommand('vault'),
  'vault reconcile': async () => (await import('./commands/reconcile.js')).runReconcile,
  migrate: async () => (await import('./commands/migrate.js')).runMigrate,
  copy: async () => (await import('./commands/copy.js')).runCopy,
  keys: async () => (await import('./commands/keys.js')).runKeys,
  doctor: async () => (await import('./commands/doctor/command.js')).runDoctor,
  conformance: async () => (await import('./commands/conformance/command.js')).runConformance
}

const SERVING: readonly string[] = ['auth', 'relay', 'vault', 'all']

/** Runs servers until a signal stops them. */
function serveUntilSignal(names: readonly ServerName[]): () => Promise<Command> {
  return async () =>
    async ({ args, env, envFile }) => {
      readArguments(args, {}, [0, 0])
      // Nothing is open yet.
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => process.exit())
      const { runServers } = await import('./process/run-servers.js')
      await runServers(names, starters, { env, envFile })
      return undefined
    }
}

const ENV_FILE = '.env'
/**
 * Reads `.env` of the working directory. It sets variables of the servers only: `process.env` stays as it is, because
 * Node reads that too, and `NODE_TLS_REJECT_UNAUTHORIZED` would switch off the verification of certificates.
 *
 * @returns undefined where there is no such file @throws StartError when it cannot be read
 */
function readEnvFile(): EnvFile | undefined {
  const found = statSync(ENV_FILE, { throwIfNoEntry: false })
  // Python has folders of this name.
  if (found === undefined || found.isDirectory()) return undefined
  const values = startStep(`Cannot read ${ENV_FILE}`, () => parseEnv(readFileSync(ENV_FILE, 'utf8')))
  return { name: ENV_FILE, values, ignored: findUnknownVariables(values) }
}

/** Runs the command that the words name. @returns the exit code once that is known */
async function run(words: readonly string[]): Promise<number | undefined> {
  const [first = '', second = ''] = words
  if (words.includes('--help') || words.includes('-h')) {
    process.stdout.write(describeUsage(first))
    return 0
  }
  const name = [`${first} ${second}`, first].find((one) => Object.hasOwn(commands, one)) ?? ''
  const out = (line: string): boolean => process.stdout.write(`${line}\n`)
  const { stdout } = process
  try {
    const envFile = readEnvFile()
    const env = { ...envFile?.values, ...process.env }
    const command = await commands[name]?.()
    if (command === undefined) throw new UsageError(`Unknown command: ${first}`)
    // Servers log it.
    if (envFile !== undefined && envFile.ignored.length > 0 && !SERVING.includes(name)) {
      process.stderr.write(`${ENV_FILE}: ignored, because no server has it: ${envFile.ignored.join(', ')}\n`)
    }
    const args = words.slice(name.split(' ').length)
    return await command({ args, env, out, isTerminal: stdout.isTTY, envFile })
  } catch (error) {
    const isUsage = error instanceof UsageError
    process.stderr.write(isUsage ? `${error.message}\n\n${describeUsage(first)}` : `${describeFailure(error, name)}\n`)
    if (isUsage) return 2
    // Something of a failed start may keep the process alive.
    process.exit(1)
  }
}

/** Keeps off standard error that `node:sqlite` is experimental: the servers are tested with it on each Node. */
function silenceSqliteWarning(): void {
  const emit = process.emitWarning.bind(process) as (warning: string | Error, ...rest: unknown[]) => void
  process.emitWarning = (warning: string | Error, ...rest: unknown[]): void => {
    const message = typeof warning === 'string' ? warning : warning.message
    if (!message.startsWith('SQLite is an experimental feature')) emit(warning, ...rest)
  }
}

silenceSqliteWarning()
void run(process.argv.slice(2)).then((code) => (process.exitCode = code))
