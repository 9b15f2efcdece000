import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

export const root = fileURLToPath(new URL('../..', import.meta.url))

const run = promisify(execFile)

/** Without what npm tells the scripts of this package: it would take the folder of the test for this one. */
const environment = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(?:npm_(?!config_)|npm_config_local_prefix$|INIT_CWD$)/.test(name))
)

/** Runs a program, and answers what it printed. @throws Error with all that it said */
export async function runIn(folder: string, command: string, ...args: string[]): Promise<string> {
  try {
    return (await run(command, args, { cwd: folder, env: environment, timeout: 120_000 })).stdout
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
    throw new Error(`${command} ${args.join(' ')} failed\n${stdout}\n${stderr}`, { cause: error })
  }
}

/**
 * Builds and packs the sources in a copy, because `npm pack` deletes and rebuilds `dist`, which others may be using.
 *
 * @param folder - empty
 * @returns path of the tarball, and what it holds
 */
export async function pack(folder: string): Promise<{ tarball: string; files: string[] }> {
  const copied = ['src', 'servers', '.config', 'package.json', 'tsconfig.json', '.npmrc']
  const shipped = ['README.md', 'LICENSE', 'CHANGELOG.md', 'SECURITY.md']
  // As a checkout has them: what must not be shipped has to be there to be left out.
  const unwanted = ['test', 'examples', '.ci']
  for (const name of [...copied, ...shipped, ...unwanted]) {
    cpSync(join(root, name), join(folder, name), { recursive: true })
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  const output = await runIn(folder, 'npm', 'pack', '--json')
  const [packed] = JSON.parse(output.slice(output.indexOf('['))) as [{ filename: string; files: { path: string }[] }]
  return { tarball: join(folder, packed.filename), files: packed.files.map(({ path }) => path) }
}

interface LockedPackage {
  dependencies?: Record<string, string>
}

/**
 * Paths in node_modules of everything that a package brings along, itself included; peers are somebody else's.
 *
 * @param project - folder of the project that it is installed in
 */
export function treeOf(project: string, name: string): Set<string> {
  const text = readFileSync(join(project, 'node_modules/.package-lock.json'), 'utf8')
  const { packages } = JSON.parse(text) as { packages: Record<string, LockedPackage> }
  const found = new Set<string>()
  const visit = (dependency: string, from: string): void => {
    // As Node looks for it: beside the dependent, then one level up, and so on.
    const folders = from
      .split('/node_modules/')
      .map((_part, index, parts) => parts.slice(0, index + 1).join('/node_modules/'))
    const places = [
      ...folders.reverse().map((folder) => `${folder}/node_modules/${dependency}`),
      `node_modules/${dependency}`
    ]
    const path = places.find((place) => place in packages)
    if (path === undefined || found.has(path)) return
    found.add(path)
    for (const next of Object.keys(packages[path]?.dependencies ?? {})) visit(next, path)
  }
  visit(name, '')
  return found
}

const ANY_PORT = `const net = require('node:net')
const { listen } = net.Server.prototype
net.Server.prototype.listen = function () {
  this.once('listening', () => console.log('port ' + this.address().port))
  return listen.call(this, 0, '127.0.0.1')
}
`

/** Runs a file that calls `app.listen(3000)` as a user would, on any free port, while `use` is at work. */
export async function whileRunning(folder: string, file: string, use: (url: string) => Promise<void>): Promise<void> {
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'any-port.cjs'), ANY_PORT)
  const child = spawn(process.execPath, ['--require', './any-port.cjs', file], { cwd: folder, env: environment })
  let printed = ''
  child.stderr.on('data', (chunk: Buffer) => (printed += chunk.toString()))
  const exited = once(child, 'exit')
  const port = await new Promise<string>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      const told = /^port (\d+)/m.exec(chunk.toString())?.[1]
      if (told !== undefined) resolve(told)
    })
    child.once('exit', () => {
      reject(new Error(`${file} ended before it listened\n${printed}`))
    })
  })
  try {
    await use(`http://127.0.0.1:${port}`)
  } finally {
    child.kill()
    await exited
  }
}
