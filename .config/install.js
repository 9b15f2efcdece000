/**
 * `node .config/install.js` installs the packages of this repository. `node .config/install.js slow` also installs those
 * of test/slow, mainly an IPFS node, and of the documentation site. Installed packages are not changed.
 */
import { spawn } from 'node:child_process'
import { constants } from 'node:os'
import { readFileSync, realpathSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const rootDir = fileURLToPath(new URL('..', import.meta.url))
const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP']

/**
 * Runs a program with the terminal of this process. Its output goes to stderr, because standard output may be
 * the log of a server. Signals are forwarded to the program. When it has ended, they also end this process.
 *
 * @returns its exit code
 */
export async function run(command, args, options = {}) {
  let child
  let received
  const forward = (signal) => {
    received = signal
    child.kill(signal)
  }
  // Added before the start, because a signal during the start would otherwise end only this process.
  for (const signal of FORWARDED) process.on(signal, forward)
  child = spawn(command, args, { stdio: ['inherit', 2, 2], ...options })
  const code = await new Promise((resolve) => {
    child.once('error', (error) => {
      console.error(`${command}: ${error.message}`)
      resolve(1)
    })
    child.once('close', (status, signal) => resolve(status ?? 128 + constants.signals[signal]))
  })
  for (const signal of FORWARDED) process.off(signal, forward)
  if (received !== undefined) process.exit(128 + constants.signals[received])
  return code
}

/**
 * Whether the packages of a lock file are installed according to npm's record in node_modules. A failed or interrupted
 * installation leaves no record. Optional packages are not compared, because npm omits those that this platform does
 * not need or that fail to install.
 *
 * @param {string} folder
 * @param {{ withTools?: boolean }} [options] - false: development packages may be missing
 */
export function isInstalled(folder, { withTools = true } = {}) {
  const lockFile = join(folder, 'package-lock.json')
  const record = join(folder, 'node_modules/.package-lock.json')
  try {
    const installed = readPackages(record)
    // If the record is newer than the lock file, other versions were installed on purpose.
    const isRecent = statSync(record).mtimeMs > statSync(lockFile).mtimeMs
    return Object.entries(readPackages(lockFile)).every(([path, { version, integrity, ...wanted }]) => {
      if (!path.includes('node_modules/') || wanted.optional) return true
      if (!withTools && (wanted.dev || wanted.devOptional)) return true
      const installedPackage = installed[path]
      if (installedPackage === undefined || isRecent) return installedPackage !== undefined
      return installedPackage.version === version && installedPackage.integrity === integrity
    })
  } catch {
    return false
  }
}

function readPackages(file) {
  return JSON.parse(readFileSync(file, 'utf8')).packages
}

/**
 * Installs the packages of a folder, including development packages, unless they are installed.
 *
 * @returns whether they are installed
 */
export async function install(path = '.', options) {
  const folder = join(rootDir, path)
  if (isInstalled(folder, options)) return true
  console.error(`Installing packages${path === '.' ? '' : ` of ${path}`}. This takes about a minute.`)
  const flags = ['--include=dev', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error']
  const code = await run('npm', ['ci', ...flags, '--prefix', '.'], { cwd: folder, shell: process.platform === 'win32' })
  if (code === 0) return true
  const where = path === '.' ? '' : `cd ${path} && `
  console.error(`The packages could not be installed. The reason is above. Run \`${where}npm ci\` to try again.`)
  return false
}

if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const folders = process.argv[2] === 'slow' ? ['.', 'test/slow', 'test/slow/modal', '.site'] : ['.']
  for (const folder of folders) {
    if (!(await install(folder))) {
      process.exitCode = 1
      break
    }
  }
}
