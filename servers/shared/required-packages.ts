import { StartError } from './start-error.js'

/** What the servers need and users of the library alone do not install. */
const PACKAGES = ['better-sqlite3', 'cors', 'express', 'helmet', 'pino', 'prom-client', 'zod']

/**
 * Looks for the optional packages before anything imports them, so that whoever starts a server first reads a command
 * and not a stack.
 *
 * @throws StartError naming every package that is missing
 */
export function assertPackagesInstalled(resolve: (name: string) => unknown = resolveHere): void {
  const missing = PACKAGES.filter((name) => {
    try {
      resolve(name)
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
