import type { ServerName } from './read-env.js'
import { StartError } from './start-error.js'

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

/**
 * Looks for packages before anything imports them, so that whoever starts a server first reads a command and not a stack.
 *
 * @throws StartError naming every package that is missing
 */
export function assertPackagesInstalled(
  packages: readonly string[],
  resolve: (name: string) => unknown = resolveHere
): void {
  const missing = packages.filter((versioned) => {
    try {
      resolve(versioned.replace(/@\d+$/, ''))
      return false
    } catch {
      return true
    }
  })
  if (missing.length === 0) return
  const what = missing.length === 1 ? 'the package' : 'the packages'
  throw new StartError(`The servers need ${what} ${missing.join(', ')}: npm install ${missing.join(' ')}`)
}

function resolveHere(name: string): string {
  return import.meta.resolve(name)
}
