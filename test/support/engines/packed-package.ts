import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { scaled } from '../fixtures/time-factor.js'
import { runPid } from '../servers/run-script.js'

export const root = fileURLToPath(new URL('../../..', import.meta.url))

const run = promisify(execFile)

/**
 * Environment without the variables that npm sets for the scripts of this package. With them, npm would treat the
 * folder of a test as this package.
 */
const inherited = Object.entries(process.env).filter(
  ([name]) => !/^(?:npm_(?!config_)|npm_config_local_prefix$|INIT_CWD$)/.test(name)
)
/** Environment in which npm prefers files that an earlier installation has downloaded. */
const environment = {
  ...Object.fromEntries(inherited),
  npm_config_prefer_offline: 'true',
  npm_config_audit: 'false',
  npm_config_fund: 'false'
}

/**
 * Runs a program in a folder, and returns what it printed.
 *
 * @throws Error with its complete output, if it fails
 */
export async function runIn(folder: string, command: string, ...args: string[]): Promise<string> {
  try {
    return (await run(command, args, { cwd: folder, env: environment, timeout: scaled(600_000) })).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`${command} ${args.join(' ')} failed\n${stdout}\n${stderr}`, { cause: error })
  }
}

/** A package as npm packs it. */
export interface PackedPackage {
  tarball: string
  /** Paths of its files from the root of the package. */
  files: string[]
}

/** The packages of this repository. */
type PackedPackages = Record<'library' | 'client' | 'servers', PackedPackage>

/**
 * Builds and packs all packages once in a run of Jest. The first test file that needs them does this, and others wait
 * for it. .config/remove-compiled.js removes them.
 *
 * @throws Error with the output of npm, for each test file
 */
export async function packAll(): Promise<PackedPackages> {
  const folder = join(tmpdir(), `did-auth-packed-${runPid}`)
  const record = join(folder, 'packed.json')
  try {
    mkdirSync(folder)
    const outcome = await packIn(join(folder, 'checkout')).catch((error: unknown) => ({ failure: String(error) }))
    writeFileSync(`${record}-new`, JSON.stringify(outcome))
    renameSync(`${record}-new`, record)
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'EEXIST') throw error
    while (!existsSync(record)) await pause(100)
  }
  const outcome = JSON.parse(readFileSync(record, 'utf8')) as PackedPackages | { failure: string }
  if ('failure' in outcome) throw new Error(outcome.failure)
  return outcome
}

/** Packs in a copy, because packing deletes and rebuilds `dist`, which others may be using. */
async function packIn(folder: string): Promise<PackedPackages> {
  mkdirSync(folder)
  // The copy has all files of a checkout, including those that must not be published: the tests show their absence.
  const unwanted = ['node_modules', '.git', '.cache', 'dist', 'data']
  for (const name of readdirSync(root).filter((name) => !unwanted.includes(name))) {
    cpSync(join(root, name), join(folder, name), {
      recursive: true,
      filter: (path) => !/\/(?:dist|node_modules)$/.test(path)
    })
  }
  linkPackages(folder)
  const output = await runIn(folder, 'npm', 'pack', '--workspaces', '--include-workspace-root', '--json')
  const packed = JSON.parse(output.slice(output.indexOf('['))) as {
    name: string
    filename: string
    files: { path: string }[]
  }[]
  const find = (wantedName: string): PackedPackage => {
    const { filename, files } = packed.find(({ name }) => name === wantedName)!
    return { tarball: join(folder, filename), files: files.map(({ path }) => path) }
  }
  return {
    library: find('express-did-auth'),
    client: find('express-did-auth-client'),
    servers: find('express-did-auth-servers')
  }
}

/** Links the installed packages into the copy. Packages of this repository link to the folders of the copy. */
function linkPackages(folder: string): void {
  const foldersInCopy: Record<string, string> = {
    'express-did-auth': '..',
    'express-did-auth-client': '../src/client',
    'express-did-auth-servers': '../servers'
  }
  mkdirSync(join(folder, 'node_modules'))
  for (const name of readdirSync(join(root, 'node_modules'))) {
    symlinkSync(foldersInCopy[name] ?? join(root, 'node_modules', name), join(folder, 'node_modules', name))
  }
}

interface LockedPackage {
  dependencies?: Record<string, string>
}

/**
 * Lists the paths in node_modules of a package and of all its dependencies, except peer dependencies.
 *
 * @param project - folder of the project in which the package is installed
 */
export function listTree(project: string, name: string): Set<string> {
  const text = readFileSync(join(project, 'node_modules/.package-lock.json'), 'utf8')
  const { packages } = JSON.parse(text) as { packages: Record<string, LockedPackage> }
  const collected = new Set<string>()
  const visit = (dependency: string, from: string): void => {
    // Node looks in this order: next to the dependent, then one level up, and so on.
    const folders = from
      .split('/node_modules/')
      .map((_part, index, parts) => parts.slice(0, index + 1).join('/node_modules/'))
    const places = [
      ...folders.reverse().map((folder) => `${folder}/node_modules/${dependency}`),
      `node_modules/${dependency}`
    ]
    const path = places.find((place) => place in packages)
    if (path === undefined || collected.has(path)) return
    collected.add(path)
    for (const next of Object.keys(packages[path]?.dependencies ?? {})) visit(next, path)
  }
  visit(name, '')
  return collected
}

/** Script that lets `listen` take a free port, and prints the port. */
const ANY_PORT = `const net = require('node:net')
const { listen } = net.Server.prototype
net.Server.prototype.listen = function () {
  this.once('listening', () => console.log('port ' + this.address().port))
  return listen.call(this, 0, '127.0.0.1')
}
`

/** Runs a file that calls `app.listen(3000)`, on any free port instead, until `use` has finished. */
export async function useWhileRunning(
  folder: string,
  file: string,
  use: (url: string) => Promise<void>
): Promise<void> {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'any-port.cjs'), ANY_PORT)
  const child = spawn(process.execPath, ['--require', './any-port.cjs', file], { cwd: folder, env: environment })
  let printed = ''
  child.stderr.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  const exited = once(child, 'exit')
  const port = await new Promise<string>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      const printedPort = /^port (\d+)/m.exec(chunk.toString())?.[1]
      if (printedPort !== undefined) resolve(printedPort)
    })
    child.once('exit', () => reject(new Error(`${file} ended before it listened\n${printed}`)))
  })
  try {
    await use(`http://127.0.0.1:${port}`)
  } finally {
    child.kill()
    await exited
  }
}
