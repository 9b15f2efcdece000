import { readFileSync, statSync } from 'node:fs'
import { parseEnv } from 'node:util'
import { readArguments, UsageError, type CommandLine } from './tools/command-line.js'
import { describeIgnoredVariables, findUnknownVariables, type EnvFile, type ServerName } from './config/read-env.js'
import { ownCommand, startStep } from './config/startup-error.js'
import { describeFailure } from './config/variable-names.js'
import type { ServerLoaders } from './process/run-servers.js'

/** Usage of each command. A line with more indentation continues the command above it. */
const USAGE = `  auth    starts the authentication server (port 3000)
  relay   starts the file relay (port 3001)
  vault   starts the data vault (port 3002)
  all     starts all three in one process
  vault reconcile [--accept-damage] [--dry-run]
          checks content, lists and pins, and repairs them
  vault takedown <cid or link> [--allow] [--dry-run]
          removes content from all entries and blocks it, or allows it again
  relay takedown <cid or link> [--allow] [--dry-run]
          removes a file and blocks it, or allows it again
  migrate [--check|--print]
          updates the tables of DATABASE_URL, checks them, or prints the SQL
  copy [--from <DATA_DIR>]
          copies the contents of a DATA_DIR to DATABASE_URL (and to the bucket, if one is configured)
  backup <folder>
          writes sessions, contents and keys to a new folder, also while servers run
  restore <folder>
          verifies a backup, and writes it to an empty DATA_DIR or DATABASE_URL
  keys new [--network <name>] [--out <file>] [--json]
          creates a new PRIVATE_KEY, CHALLENGE_SECRET and RESOURCE_KEY for .env
  doctor [<url>] [--origin <origin>]… [--server <name>] [--json]
          finds problems of the environment, or of a running service`

/** Returns the usage of one command, or of all commands if the command is unknown. */
function describeUsage(command: string): string {
  const all = USAGE.split(/\n(?= {2}\S)/)
  const matching = all.filter((usage) => usage.trim().split(' ', 1)[0] === command)
  return `usage: ${ownCommand('<command>')}

${(matching.length > 0 ? matching : all).join('\n')}

  --help     prints this text, or the usage of a command
  --version  prints the version

All settings are variables of the environment or of .env. The README lists them.
Exit codes: 0 success, 1 failure or problems found, 2 wrong arguments.\n`
}

/** @returns the exit code; undefined if the process runs until a signal stops it */
type Command = (commandLine: CommandLine) => Promise<number | undefined>

// Servers and commands are loaded when they are needed, because loading takes time.
const loaders: ServerLoaders = {
  auth: async () => (await import('./auth/app.js')).openAuth,
  relay: async () => (await import('./relay/app.js')).openRelay,
  vault: async () => (await import('./vault/app.js')).openVault
}
const commands: Readonly<Record<string, () => Promise<Command>>> = {
  auth: serveUntilSignal(['auth']),
  relay: serveUntilSignal(['relay']),
  vault: serveUntilSignal(['vault']),
  all: serveUntilSignal(['auth', 'relay', 'vault']),
  'relay takedown': async () => (await import('./tools/takedown.js')).createTakedownCommand('relay'),
  'vault takedown': async () => (await import('./tools/takedown.js')).createTakedownCommand('vault'),
  'vault reconcile': async () => (await import('./tools/reconcile.js')).runReconcile,
  migrate: async () => (await import('./tools/migrate.js')).runMigrate,
  copy: async () => (await import('./tools/copy.js')).runCopy,
  backup: async () => (await import('./tools/backup.js')).runBackup,
  restore: async () => (await import('./tools/restore.js')).runRestore,
  keys: async () => (await import('./tools/keys.js')).runKeys,
  doctor: async () => (await import('./tools/doctor/command.js')).runDoctor
}

const SERVING: readonly string[] = ['auth', 'relay', 'vault', 'all']

/** Creates the command that runs servers until a signal stops them. */
function serveUntilSignal(names: readonly ServerName[]): () => Promise<Command> {
  return async () =>
    async ({ args, env, envFile }) => {
      readArguments(args, {}, [0, 0])
      // Until the servers start, a signal can end the process at once, because nothing is open.
      for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => process.exit())
      const { runServers } = await import('./process/run-servers.js')
      await runServers(names, loaders, { env, envFile })
      return undefined
    }
}

const ENV_FILE = '.env'
/**
 * Reads `.env` of the working directory. Its variables are not added to `process.env`, which Node itself reads:
 * `NODE_TLS_REJECT_UNAUTHORIZED` in the file would switch off the verification of certificates.
 *
 * @returns undefined if there is no such file @throws StartError if it cannot be read
 */
function readEnvFile(): EnvFile | undefined {
  const status = statSync(ENV_FILE, { throwIfNoEntry: false })
  // Python projects have folders with this name.
  if (status === undefined || status.isDirectory()) return undefined
  const values = startStep(`Cannot read ${ENV_FILE}`, () => parseEnv(readFileSync(ENV_FILE, 'utf8')))
  return { name: ENV_FILE, values, ignored: findUnknownVariables(values) }
}

/** Runs the command of a command line. @returns the exit code; undefined if a server runs */
async function run(words: readonly string[]): Promise<number | undefined> {
  const [first = '', second = ''] = words
  if (words.includes('--help') || words.includes('-h')) {
    process.stdout.write(describeUsage(first))
    return 0
  }
  const name = [`${first} ${second}`, first].find((candidate) => Object.hasOwn(commands, candidate)) ?? ''
  const out = (line: string): boolean => process.stdout.write(`${line}\n`)
  const { stdout } = process
  try {
    const envFile = readEnvFile()
    const env = { ...envFile?.values, ...process.env }
    const command = await commands[name]?.()
    if (command === undefined) throw new UsageError(first === '' ? 'A command is missing' : `Unknown command: ${first}`)
    // Servers write this warning to their log.
    if (envFile !== undefined && envFile.ignored.length > 0 && !SERVING.includes(name)) {
      process.stderr.write(`${describeIgnoredVariables(envFile)}\n`)
    }
    const args = words.slice(name.split(' ').length)
    return await command({ args, env, out, isTerminal: stdout.isTTY, envFile })
  } catch (error) {
    const isUsage = error instanceof UsageError
    process.stderr.write(isUsage ? `${error.message}\n\n${describeUsage(first)}` : `${describeFailure(error, name)}\n`)
    if (isUsage) return 2
    // Resources of a failed start might otherwise keep the process alive.
    process.exit(1)
  }
}

/** Suppresses the warning that `node:sqlite` is experimental. The servers are tested with it on each Node version. */
function silenceSqliteWarning(): void {
  const emit = process.emitWarning.bind(process) as (warning: string | Error, ...details: unknown[]) => void
  process.emitWarning = (warning: string | Error, ...details: unknown[]): void => {
    const message = typeof warning === 'string' ? warning : warning.message
    if (!message.startsWith('SQLite is an experimental feature')) emit(warning, ...details)
  }
}

silenceSqliteWarning()
void run(process.argv.slice(2)).then((code) => (process.exitCode = code))
