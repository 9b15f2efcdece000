/**
 * `npm run build` builds the library to dist/, the client to src/client/dist/, and the servers with the page and the IPFS
 * client to servers/dist/, unless they are up to date. `npm start` omits the IPFS client where no variable names a node.
 * `node .config/build.js library` builds only the library, `client` only the client. `clean` as the next word deletes old
 * builds first.
 */
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs'
import { utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { install, run, startClock } from './install.js'

const rootDir = fileURLToPath(new URL('..', import.meta.url))
/** File whose time of modification is the time at which the last complete build began. It says what the build contains. */
const stamp = join(rootDir, 'servers/dist/.built')
const WITH_IPFS = 'with the IPFS client'
/** Module of a build without the IPFS client, for servers that are started with another program than `npm start`. */
const NO_IPFS_CLIENT = `export function create() {
  throw new Error('this build has no IPFS client: run npm run build')
}
`
const SOURCES = ['package-lock.json', 'package.json', 'tsconfig.json', '.config', 'src', 'servers']
/** Folders to which the build adds names, which changes their times. */
const WITH_BUILDS = ['src/client', 'servers'].map((folder) => join(rootDir, folder))
/** Names within the sources that the build or npm creates. */
const GENERATED = ['dist', 'node_modules', 'THIRD-PARTY-LICENSES']
const OUTPUTS = [
  'dist/index.js',
  'src/client/dist/client/index.js',
  'servers/dist/bin.js',
  'servers/dist/page/index.html'
]

/** Whether library, client and servers are built, and no source has changed since. */
function isBuilt(withIpfs) {
  if (withIpfs && (!existsSync(stamp) || readFileSync(stamp, 'utf8') !== WITH_IPFS)) return false
  if (!existsSync(stamp) || !OUTPUTS.every((file) => existsSync(join(rootDir, file)))) return false
  const builtAt = statSync(stamp).mtimeMs
  const isOlder = (path) => {
    const status = statSync(path)
    if (status.mtimeMs > builtAt && !WITH_BUILDS.includes(path)) return false
    return (
      !status.isDirectory() || readdirSync(path).every((name) => GENERATED.includes(name) || isOlder(join(path, name)))
    )
  }
  return SOURCES.every((path) => isOlder(join(rootDir, path)))
}

/** Compiles the changed files of projects. @returns whether that succeeded */
async function compile(...projects) {
  const compiler = join(rootDir, 'node_modules/typescript/bin/tsc')
  const files = projects.map((project) => join(rootDir, `.config/tsconfig.${project}.json`))
  return (await run(process.execPath, [compiler, '-b', ...files])) === 0
}

/**
 * Builds library, client and servers unless they are up to date. Installs packages first.
 *
 * @param {{ withIpfs?: boolean }} [options] - false: without the IPFS client, whose packages are development packages
 * @returns whether they are built
 */
export async function build({ withIpfs = true } = {}) {
  const isUpToDate = isBuilt(withIpfs)
  if (!(await install('.', { withTests: withIpfs && !isUpToDate }))) return false
  if (isUpToDate) return true
  console.error('Building.')
  const measure = startClock()
  const startedAt = new Date()
  rmSync(stamp, { force: true })
  if (!(await compile('client', 'servers'))) return false
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
  const ipfsClient = join(dist, 'ipfs/http-client.js')
  try {
    await buildPage(join(dist, 'page'))
    if (withIpfs) await bundleIpfsClient(ipfsClient, join(rootDir, 'servers/THIRD-PARTY-LICENSES'))
    else writeFileSync(ipfsClient, NO_IPFS_CLIENT)
  } catch (error) {
    console.error(`The build failed: ${error.message}`)
    return false
  } finally {
    // Otherwise the process of esbuild would run as long as the servers.
    await (await import('esbuild')).stop()
  }
  writeFileSync(stamp, withIpfs ? WITH_IPFS : '')
  utimesSync(stamp, startedAt, startedAt)
  console.error(`Built in ${measure()}.`)
  return true
}

if (realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  const [, , project, option] = process.argv
  if (option === 'clean') {
    const builds = project === 'client' ? ['src/client/dist'] : ['dist', 'servers/dist']
    for (const folder of builds) rmSync(join(rootDir, folder), { recursive: true, force: true })
  }
  const isDone =
    project === undefined ? await build() : (await install('.', { withTests: false })) && (await compile(project))
  process.exitCode = isDone ? 0 : 1
}
