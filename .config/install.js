/**
 * `node .config/install.js` installs what the tests need. `node .config/install.js slow` also installs the packages of
 * test/slow, which are for slow tests and other checks, and of the documentation site. Missing packages are added to
 * those that are installed.
 */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { constants } from 'node:os'
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
 * Lists the packages of a lock file that npm installs on this platform, by their folders. Links to folders of this
 * repository are not listed.
 *
 * @param {string} folder
 * @param {boolean} withTests - false: without development packages, which only tests need
 */
function listPackages(folder, withTests) {
  process.report.excludeNetwork = true
  const libc = process.report.getReport().header.glibcVersionRuntime === undefined ? 'musl' : 'glibc'
  const accepts = (list = [], name) =>
    list.length === 0 || (list.every((one) => one.startsWith('!')) ? !list.includes(`!${name}`) : list.includes(name))
  let packages = Object.entries(readPackages(join(folder, 'package-lock.json'))).filter(
    ([, { dev, os, cpu, libc: libcs }]) =>
      (withTests || !dev) && accepts(os, process.platform) && accepts(cpu, process.arch) && accepts(libcs, libc)
  )
  // Packages for other platforms are not installed, so packages that only they need are not installed either.
  for (let count; count !== packages.length;) {
    count = packages.length
    const needed = new Set(
      packages.flatMap(([, { dependencies, optionalDependencies, peerDependencies }]) =>
        Object.keys({ ...dependencies, ...optionalDependencies, ...peerDependencies })
      )
    )
    packages = packages.filter(([path, { optional }]) => !optional || needed.has(toName(path)))
  }
  return packages.filter(([path, { link }]) => path.includes('node_modules/') && !link).map(([path]) => path)
}

const toName = (path) => path.split('node_modules/').at(-1)
const readPackages = (file) => JSON.parse(readFileSync(file, 'utf8')).packages

/**
 * Compares the packages of a lock file with npm's record of its last installation. A failed or interrupted installation
 * leaves no record. Optional packages are not compared, because npm omits those that fail to install.
 *
 * @param {string} folder
 * @param {boolean} withTests - false: development packages may be missing
 * @returns {'installed' | 'incomplete' | 'different'} incomplete: those that are installed are as in the lock file
 */
function compareWithRecord(folder, withTests) {
  const lockFile = join(folder, 'package-lock.json')
  const record = join(folder, 'node_modules/.package-lock.json')
  if (!existsSync(record)) return 'different'
  const installed = readPackages(record)
  // If the record is newer than the lock file, other versions were installed on purpose.
  const isRecent = statSync(record).mtimeMs > statSync(lockFile).mtimeMs
  const wanted = Object.entries(readPackages(lockFile)).filter(
    ([path, { optional, dev }]) => path.includes('node_modules/') && !optional && (withTests || !dev)
  )
  const isSame = ([path, { version, integrity }]) =>
    isRecent ||
    installed[path] === undefined ||
    (installed[path].version === version && installed[path].integrity === integrity)
  if (!wanted.every(isSame)) return 'different'
  return wanted.every(([path]) => installed[path] !== undefined) ? 'installed' : 'incomplete'
}

/** Whether npm's record has development packages. */
function hasDevelopmentPackages(folder) {
  const record = join(folder, 'node_modules/.package-lock.json')
  return existsSync(record) && Object.values(readPackages(record)).some(({ dev }) => dev)
}

/**
 * Lists the installed packages whose install scripts have to run and have not run. `allowScripts` of package.json names
 * candidates. A package with a binary for this platform is ready. Only slow tests use better-sqlite3 on a Node that has
 * SQLite.
 */
function listPendingScripts(folder, forSlowTests) {
  const { allowScripts = {} } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  const done = readScriptRecord(folder)
  return Object.keys(allowScripts).filter((name) => {
    const has = (path) => existsSync(join(folder, 'node_modules', name, path))
    if (!allowScripts[name] || done.includes(name) || !has('package.json')) return false
    if (name === 'better-sqlite3' && isBuiltin('node:sqlite') && !forSlowTests) return false
    return !has('build/Release') && !has(`prebuilds/${process.platform}-${process.arch}`)
  })
}

/** Returns the file with the names of packages whose install scripts have run. */
const toScriptRecord = (folder) => join(folder, 'node_modules/.install-scripts.json')
const readScriptRecord = (folder) =>
  existsSync(toScriptRecord(folder)) ? JSON.parse(readFileSync(toScriptRecord(folder), 'utf8')) : []

/** Prints a changing text: on a terminal in one line, elsewhere as a line every 10 s. @returns the function that ends this */
function showProgress(getText) {
  const { isTTY } = process.stderr
  const clearLine = isTTY ? '\r\u001B[K' : ''
  const print = () => process.stderr.write(`${clearLine}${getText()}${isTTY ? '' : '\n'}`)
  const timer = setInterval(print, isTTY ? 500 : 10_000)
  return () => {
    clearInterval(timer)
    process.stderr.write(clearLine)
  }
}

/**
 * Installs the packages of a folder unless they are installed. npm runs no install scripts; those that are needed run
 * afterwards.
 *
 * @param {string} [path] - of the folder, from the top of this repository
 * @param {{ withTests?: boolean; forSlowTests?: boolean }} [options] - `withTests: false`: development packages, which
 *   only tests need, may be missing
 * @returns whether they are installed
 */
export async function install(path = '.', { withTests = true, forSlowTests = false } = {}) {
  const folder = join(rootDir, path)
  const state = compareWithRecord(folder, withTests)
  if (state === 'installed') return runScripts(folder, forSlowTests)
  // Development packages that are installed stay.
  const withDevelopment = withTests || hasDevelopmentPackages(folder)
  const isPresent = (one) => existsSync(join(folder, one, 'package.json'))
  const listed = listPackages(folder, withDevelopment)
  const missing = state === 'incomplete' ? listed.filter((one) => !isPresent(one)) : listed
  // `npm ci` would do this. Until then, the packages of the old installation would be counted.
  if (state === 'different') rmSync(join(folder, 'node_modules'), { recursive: true, force: true })
  const countPresent = () => missing.filter(isPresent).length
  const measure = startClock()
  const where = path === '.' ? '' : ` of ${path}`
  console.error(`Installing ${formatCount(missing.length)}${where}.`)
  const stop = showProgress(() => `${countPresent()} of ${missing.length} packages${where} after ${measure()}`)
  // `npm install` adds packages, so that running servers keep theirs.
  const args = state === 'incomplete' ? ['install', '--no-save'] : ['ci']
  const flags = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund']
  const isDone = await runNpm(folder, ...args, withDevelopment ? '--include=dev' : '--omit=dev', ...flags)
  stop()
  if (!isDone) {
    const command = path === '.' ? 'npm ci' : `cd ${path} && npm ci`
    console.error(`The packages could not be installed. The reason is above. Run \`${command}\` to try again.`)
    return false
  }
  const count = countPresent()
  await runScripts(folder, forSlowTests)
  console.error(`Installed ${formatCount(count)} in ${measure()}.`)
  return true
}

/** Runs the pending install scripts. A failure is only reported, because what needs such a package says so itself. */
async function runScripts(folder, forSlowTests) {
  const pending = listPendingScripts(folder, forSlowTests)
  if (pending.length === 0) return true
  const names = pending.join(', ')
  const measure = startClock()
  console.error(`Running the install script of ${names}.`)
  const stop = showProgress(() => `The install script of ${names} has run for ${measure()}`)
  const isDone = await runNpm(folder, 'rebuild', ...pending)
  stop()
  writeFileSync(toScriptRecord(folder), JSON.stringify([...readScriptRecord(folder), ...pending]))
  if (!isDone) console.error(`The script failed. The reason is above. Run \`npm rebuild ${names}\` to try again.`)
  return true
}

async function runNpm(folder, ...args) {
  const all = [...args, '--no-progress', '--loglevel=error', '--prefix', '.']
  // npm counts in another way: its summary is not shown. Its errors are.
  const options = { cwd: folder, shell: process.platform === 'win32', stdio: ['inherit', 'ignore', 2] }
  return (await run('npm', all, options)) === 0
}

const formatCount = (count) => `${count} package${count === 1 ? '' : 's'}`

/** Starts to measure time. @returns the function that formats the time since then */
export function startClock() {
  const startedAt = performance.now()
  return () => `${Math.round((performance.now() - startedAt) / 1_000)} s`
}

if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const forSlowTests = process.argv[2] === 'slow'
  const installAll = async (folders) => {
    for (const folder of folders) if (!(await install(folder, { forSlowTests }))) process.exitCode = 1
  }
  // An install script that compiles uses one core. The other folders are installed meanwhile.
  await Promise.all([installAll(['.']), installAll(forSlowTests ? ['test/slow', 'test/slow/modal', '.site'] : [])])
}
