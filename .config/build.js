/**
 * `npm run build`: the library to dist/, then the servers to servers/dist/, each only where a source is newer, and the
 * page. `node .config/build.js library` builds the library alone, `library clean` from nothing.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

/** Undefined where only what runs is installed. */
function findCompiler() {
  try {
    return createRequire(import.meta.url).resolve('typescript/bin/tsc')
  } catch {
    return undefined
  }
}

/** The OpenAPI documents, which the servers read and the package exports. */
function copyOpenApi() {
  const [from, to] = ['../servers/openapi', '../servers/dist/openapi'].map((path) => new URL(path, import.meta.url))
  cpSync(from, to, { recursive: true, filter: (file) => !file.endsWith('.ts') })
}

const compiler = findCompiler()
if (compiler === undefined) {
  console.error('There is no compiler here: `npm ci` without --omit=dev installs it.')
  process.exitCode = 1
} else {
  const what = process.argv[2] === 'library' ? 'library' : 'servers'
  const project = fileURLToPath(new URL(`tsconfig.${what}.json`, import.meta.url))
  if (process.argv[3] === 'clean') {
    for (const folder of ['../dist', '../servers/dist']) {
      rmSync(new URL(folder, import.meta.url), { recursive: true, force: true })
    }
  }
  const { status } = spawnSync(process.execPath, [compiler, '-b', project], { stdio: 'inherit' })
  process.exitCode = status ?? 1
  if (status === 0 && what === 'servers') {
    copyOpenApi()
    const { buildPage } = await import('./build-page.js')
    await buildPage(fileURLToPath(new URL('../servers/dist/auth/page', import.meta.url))).catch(() => {
      // The bundler has said why.
      process.exitCode = 1
    })
  }
}
