import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { ServerName } from '../environment/read-env.js'
import { StartError } from '../environment/start-error.js'

/**
 * What the servers need and users of the library alone do not install, with the major versions that they are written for.
 * No peer dependencies: npm would refuse the library beside another major version of a package that it never loads.
 */
const OF_ALL = ['better-sqlite3@12', 'cors@2', 'express@5', 'helmet@8', 'pino@10', 'prom-client@15', 'zod@4']
const OF_CONTENT = ['@ipld/dag-pb@4', 'ipfs-unixfs@13', 'multiformats@14']
const OF_SERVER: Readonly<Record<ServerName, readonly string[]>> = {
  auth: [],
  relay: [...OF_CONTENT, 'lru-cache@11'],
  vault: OF_CONTENT
}
const OF_IPFS_NODE = 'ipfs-http-client@60'

/**
 * Packages that servers need, as npm is told to install them.
 *
 * @param hasIpfsNode - whether `IPFS_API_URL` names a node; without one, its client is never loaded
 */
export function requiredPackages(servers: readonly ServerName[], hasIpfsNode: boolean): string[] {
  const own = servers.flatMap((server) => OF_SERVER[server])
  const asksNode = hasIpfsNode && own.length > 0
  return [...new Set([...OF_ALL, ...own, ...(asksNode ? [OF_IPFS_NODE] : [])])].sort()
}

/** Older major versions that do as well. A newer one may. */
const LEAST_MAJOR: Readonly<Record<string, number>> = { express: 4 }

/**
 * Looks for packages before anything imports them, so that whoever starts a server first reads a command and not a stack.
 *
 * @param majorOf - the major version that is installed; an old one may lie there for the sake of another package
 * @throws StartError naming every package that is missing or too old
 */
export function assertPackagesInstalled(
  packages: readonly string[],
  majorOf: (name: string) => number | undefined = installedMajor
): void {
  const missing = packages.filter((versioned) => {
    const [, name = '', wanted = ''] = /^(.+)@(\d+)$/.exec(versioned) ?? []
    const major = majorOf(name)
    return major === undefined || major < (LEAST_MAJOR[name] ?? Number(wanted))
  })
  if (missing.length === 0) return
  const what = missing.length === 1 ? 'the package' : 'the packages'
  throw new StartError(`The servers need ${what} ${missing.join(', ')}: npm install ${missing.join(' ')}`)
}

function installedMajor(name: string): number | undefined {
  try {
    let folder = dirname(fileURLToPath(import.meta.resolve(name)))
    // Some have a package.json further in, which only says what kind of modules there are.
    while (versionIn(folder) === undefined && folder !== dirname(folder)) folder = dirname(folder)
    return Number.parseInt(versionIn(folder) ?? '')
  } catch {
    return undefined
  }
}

function versionIn(folder: string): string | undefined {
  const file = join(folder, 'package.json')
  if (!existsSync(file)) return undefined
  const { version } = parsePackage(readFileSync(file, 'utf8'))
  return version
}

function parsePackage(text: string): { version?: string } {
  return JSON.parse(text) as { version?: string }
}
