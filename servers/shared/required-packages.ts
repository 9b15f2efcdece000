import { StartError } from './start-error.js'

/**
 * What the servers need and users of the library alone do not install, with the major versions that they are written for.
 * No peer dependencies: npm would refuse the library beside another major version of a package that it never loads.
 */
const PACKAGES = ['better-sqlite3@12', 'cors@2', 'express@5', 'helmet@8', 'pino@10', 'prom-client@15', 'zod@4']

/**
 * Looks for the optional packages before anything imports them, so that whoever starts a server first reads a command
 * and not a stack.
 *
 * @throws StartError naming every package that is missing
 */
export function assertPackagesInstalled(resolve: (name: string) => unknown = resolveHere): void {
  const missing = PACKAGES.filter((versioned) => {
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
