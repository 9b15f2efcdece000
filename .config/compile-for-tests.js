import { cpSync, mkdirSync, readdirSync, renameSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { buildPage } from './build-page.js'

const rootDir = fileURLToPath(new URL('..', import.meta.url))
const options = { platform: 'node', format: 'esm', target: 'node20', logLevel: 'warning' }

/**
 * Jest's globalSetup. Jest compiles only the TypeScript that it runs itself, not that of threads and child processes.
 * This function compiles their files once, so that no test runs an old build.
 */
export default async function compileForTests() {
  mkdirSync(`${rootDir}.cache`, { recursive: true })
  await Promise.all([compileWorkers(), compileForProcesses()])
}

/** Compiles the threads that own a database. test/support/servers/start-sqlite-worker.ts starts them. */
async function compileWorkers() {
  const workers = {
    'sqlite-worker': 'src/stores/sqlite/worker.ts',
    'content-worker': 'servers/content/sql/sqlite-worker.ts'
  }
  await Promise.all(
    Object.entries(workers).map(async ([name, source]) => {
      const temporaryFile = `${rootDir}.cache/${name}-${process.pid}.mjs`
      await build({
        ...options,
        entryPoints: [rootDir + source],
        outfile: temporaryFile,
        bundle: true,
        external: ['better-sqlite3']
      })
      // The file is replaced atomically, because another run may be starting it.
      renameSync(temporaryFile, `${rootDir}.cache/${name}.mjs`)
    })
  )
}

/**
 * Names that the compiled files import by a path from the root, as Jest's moduleNameMapper maps them in tests. With
 * module hooks, which map them for sources, a process would need twice the time to load its modules.
 */
const mappedNames = [
  [/^[.]\/(?:stores\/sqlite\/)?start-worker[.]js$/, 'test/support/servers/start-sqlite-worker.js'],
  [/^express-did-auth$/, 'src/index.js'],
  [/^express-did-auth\/server-kit$/, 'src/server-kit.js'],
  [/^express-did-auth\/(.+)$/, 'src/$1/index.js'],
  [/^express-did-auth-client$/, 'src/client/index.js']
]

/** Plugin of esbuild that bundles nothing, and maps names. */
const separateFiles = {
  name: 'separate-files',
  setup(build) {
    build.onResolve({ filter: /./ }, ({ path, importer, kind }) => {
      if (kind === 'entry-point') return undefined
      const [pattern, file] = mappedNames.find(([pattern]) => pattern.test(path)) ?? []
      return { path: pattern === undefined ? path : findPath(importer, path.replace(pattern, file)), external: true }
    })
  }
}

/** Returns the path by which a file imports another one. */
function findPath(importer, file) {
  const path = relative(dirname(importer), join(rootDir, file)).split(sep).join('/')
  return path.startsWith('.') ? path : `./${path}`
}

/**
 * Compiles the files that child processes run, without bundling. test/support/servers/run-script.ts runs them, and
 * .config/remove-compiled.js removes them.
 */
async function compileForProcesses() {
  const outdir = `${rootDir}.cache/compiled-${process.pid}`
  const entryPoints = ['src', 'servers', 'test/support', 'test/protocol'].flatMap((folder) =>
    readdirSync(join(rootDir, folder), { recursive: true })
      .filter((file) => file.endsWith('.ts') && !file.endsWith('.test.ts') && !file.endsWith('.d.ts'))
      // The page is bundled below.
      .filter((file) => !file.startsWith(`page${sep}`))
      .map((file) => join(rootDir, folder, file))
  )
  await build({ ...options, entryPoints, outdir, outbase: rootDir, bundle: true, plugins: [separateFiles] })
  // Browser tests load the client as a script, as `didAuth.DidAuthClient`.
  await build({
    entryPoints: [`${rootDir}src/client/index.ts`],
    outfile: `${outdir}/client-script.js`,
    bundle: true,
    format: 'iife',
    globalName: 'didAuth',
    logLevel: 'warning'
  })
  // Files that the servers read in addition to their code.
  for (const name of ['auth', 'relay', 'shared', 'vault'])
    cpSync(`${rootDir}servers/openapi/${name}.json`, `${outdir}/servers/openapi/${name}.json`)
  cpSync(`${rootDir}servers/package.json`, `${outdir}/package.json`)
  await buildPage(`${outdir}/servers/page`, { fromSources: true })
  process.env.TEST_COMPILED = outdir
}
