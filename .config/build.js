/**
 * `npm run build`: the library to dist/, then the servers with the page and the IPFS client to servers/dist/, unless
 * they are newer than their sources. `node .config/build.js library` builds the library alone, `library clean` from
 * nothing.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, realpathSync, rmSync, statSync, utimesSync } from 'node:fs'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { install, run } from './install.js'

const rootDir = fileURLToPath(new URL('..', import.meta.url))
/** Has the time at which the last complete build began. */
const stamp = join(rootDir, 'servers/dist/.built')
const SOURCES = ['package-lock.json', 'package.json', 'tsconfig.json', '.config', 'src', 'servers']
/** Names under the sources that the build or npm makes. */
const MADE = ['dist', 'node_modules', 'THIRD-PARTY-LICENSES']
const OUTPUTS = ['dist/index.js', 'servers/dist/bin.js', 'servers/dist/auth/page/index.html']

/** Whether library and servers are built, and no source or folder of sources has changed since. */
export function isBuilt() {
  if (!existsSync(stamp) || !OUTPUTS.every((file) => existsSync(join(rootDir, file)))) return false
  const builtAt = statSync(stamp).mtimeMs
  const isOlder = (path) => {
    const status = statSync(path)
    // Building itself adds names to `servers`, and so changes the time of that folder.
    if (status.mtimeMs > builtAt && path !== join(rootDir, 'servers')) return false
    return !status.isDirectory() || readdirSync(path).every((name) => MADE.includes(name) || isOlder(join(path, name)))
  }
  return SOURCES.every((path) => isOlder(join(rootDir, path)))
}

/** Compiles one of the two projects, as far as its sources are newer. @returns whether that worked */
async function compile(project) {
  const compiler = join(rootDir, 'node_modules/typescript/bin/tsc')
  return (await run(process.execPath, [compiler, '-b', join(rootDir, `.config/tsconfig.${project}.json`)])) === 0
}

/** Installs what building needs, and builds library and servers, unless they are built. @returns whether they are */
export async function build() {
  if (isBuilt()) return true
  if (!(await install())) return false
  console.error('Building, about 10 s')
  const startedAt = new Date()
  rmSync(stamp, { force: true })
  if (!(await compile('servers'))) return false
  const dist = join(rootDir, 'servers/dist')
  // The OpenAPI documents: parts, which the servers read, and complete ones, which the package exports.
  cpSync(join(rootDir, 'servers/openapi'), join(dist, 'openapi'), {
    recursive: true,
    filter: (file) => !file.endsWith('.ts')
  })
  const { readDocument } = await import(pathToFileURL(join(dist, 'openapi/document.js')))
  mkdirSync(join(dist, 'openapi/documents'), { recursive: true })
  for (const name of ['auth', 'relay', 'vault']) {
    writeFileSync(join(dist, `openapi/documents/${name}.json`), JSON.stringify(readDocument(name), undefined, 1))
  }
  const { buildPage } = await import('./build-page.js')
  const { bundleIpfsClient } = await import('./bundle-ipfs-client.js')
  try {
    await buildPage(join(dist, 'auth/page'))
    await bundleIpfsClient(join(dist, 'ipfs/http-client.js'), join(rootDir, 'servers/THIRD-PARTY-LICENSES'))
  } catch (error) {
    console.error(`The build failed: ${error.message}`)
    return false
  } finally {
    // Its process would run as long as the servers.
    await (await import('esbuild')).stop()
  }
  writeFileSync(stamp, '')
  utimesSync(stamp, startedAt, startedAt)
  return true
}

async function buildLibrary() {
  return (await install()) && compile('library')
}

if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  if (process.argv[3] === 'clean') {
    for (const folder of ['dist', 'servers/dist']) rmSync(join(rootDir, folder), { recursive: true, force: true })
  }
  const isDone = process.argv[2] === 'library' ? await buildLibrary() : await build()
  process.exitCode = isDone ? 0 : 1
}
