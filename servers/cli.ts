#!/usr/bin/env node
import type { ServerName } from './shared/environment/read-env.js'
import { assertPackagesInstalled, requiredPackages } from './shared/start/required-packages.js'
import type { Starter } from './shared/start/run-servers.js'
import { reasonOf, sentenceOf, StartError } from './shared/environment/start-error.js'

const USAGE = `usage: express-did-auth <command>

  auth    the authentication server (port 3000)
  relay   the file relay (port 3001)
  vault   the data vault (port 3002)
  all     the three of them in one process

  vault reconcile [--dry-run]        makes the pins of the IPFS node those of the vault's entries
  vault takedown <cid> [--dry-run]   removes content from all entries, and from the IPFS node

All settings are environment variables, see the README.`

/** Loaded when they are wanted, because what they import may not be installed. */
const starters: Readonly<Record<ServerName, () => Promise<Starter['start']>>> = {
  auth: async () => (await import('./auth/main.js')).startAuth,
  relay: async () => (await import('./relay/main.js')).startRelay,
  vault: async () => (await import('./vault/main.js')).startVault
}
const operatorCommands: readonly string[] = ['reconcile', 'takedown']
const names: readonly ServerName[] = ['auth', 'relay', 'vault']

/** Runs the servers that a command names, until a signal stops them. */
async function runStarters(chosen: readonly ServerName[], isAll: boolean): Promise<void> {
  assertPackagesInstalled(requiredPackages(chosen, hasIpfsNode()))
  const { runServers } = await import('./shared/start/run-servers.js')
  await runServers(await Promise.all(chosen.map(async (name) => ({ name, start: await starters[name]() }))), isAll)
}

/** Runs an operator's command on the vault, and answers its exit code. */
async function runForOperator(args: readonly string[]): Promise<number> {
  assertPackagesInstalled(requiredPackages(['vault'], hasIpfsNode()))
  const { readEnv } = await import('./shared/environment/read-env.js')
  const { runVaultCommand } = await import('./vault/repair/command.js')
  const env = readEnv(process.env, 'vault', false)
  try {
    return await runVaultCommand(args, env, (line) => {
      process.stdout.write(`${line}\n`)
    })
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(`vault ${args[0] ?? ''} failed on the vault in ${env.DATA_DIR} (DATA_DIR): ${reasonOf(error)}`)
  }
}

/** Does what the command line says, and answers the exit code once that is known. */
async function run(args: readonly string[]): Promise<number | undefined> {
  const [command = '', ...rest] = args
  const chosen = command === 'all' ? names : names.filter((name) => name === command)
  if (command === 'vault' && operatorCommands.includes(rest[0] ?? '')) return runForOperator(rest)
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

run(process.argv.slice(2)).then(
  (code) => {
    if (code !== undefined) process.exitCode = code
  },
  (error: unknown) => {
    process.stderr.write(`${sentenceOf(error)}\n`)
    process.exit(1)
  }
)
