#!/usr/bin/env node
import { assertPackagesInstalled, requiredPackages } from './shared/required-packages.js'
import { sentenceOf } from './shared/start-error.js'
import type { Starter } from './shared/run-servers.js'

const USAGE = `usage: express-did-auth <command>

  auth    the authentication server (port 3000)
  all     every server of this version, in one process

All settings are environment variables, see the README.`

/** Loaded when they are wanted, because what they import may not be installed. */
const starters: Readonly<Record<string, () => Promise<Starter>>> = {
  auth: async () => ({ name: 'auth', start: (await import('./auth/main.js')).startAuth })
}

/** Runs the servers that the command names, until a signal stops them. */
async function run(command: string | undefined): Promise<void> {
  const isAll = command === 'all'
  const chosen = Object.entries(starters).flatMap(([name, load]) => (isAll || command === name ? [load] : []))
  if (chosen.length === 0) {
    const isHelp = command === '--help' || command === '-h'
    process[isHelp ? 'stdout' : 'stderr'].write(`${USAGE}\n`)
    process.exitCode = isHelp ? 0 : 2
    return
  }
  assertPackagesInstalled(requiredPackages(['auth'], false))
  const { runServers } = await import('./shared/run-servers.js')
  await runServers(await Promise.all(chosen.map((load) => load())), isAll)
}

run(process.argv[2]).catch((error: unknown) => {
  process.stderr.write(`${sentenceOf(error)}\n`)
  process.exit(1)
})
