/**
 * `npm run build`: the library to dist/, then the servers to servers/dist/, each only where a source is newer, and the page.
 * `node .config/build.js library` builds the library alone.
 */
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
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

/** The OpenAPI documents as files, for generators of clients. */
async function writeOpenApi() {
  for (const name of ['auth', 'relay', 'vault']) {
    const file = new URL(`../servers/dist/openapi/${name}.js`, import.meta.url)
    const { [`${name}Document`]: document } = await import(file)
    writeFileSync(new URL(`${name}.json`, file), `${JSON.stringify(document, null, 2)}\n`)
  }
}

const compiler = findCompiler()
if (compiler === undefined) {
  console.error('There is no compiler here: `npm ci` without --omit=dev installs it.')
  process.exitCode = 1
} else {
  const project = fileURLToPath(new URL(`tsconfig.${process.argv[2] ?? 'servers'}.json`, import.meta.url))
  const { status } = spawnSync(process.execPath, [compiler, '-b', project], { stdio: 'inherit' })
  process.exitCode = status ?? 1
  if (status === 0 && project.endsWith('servers.json')) {
    await writeOpenApi()
    const { buildPage } = await import('./build-page.js')
    await buildPage(fileURLToPath(new URL('../servers/dist/auth/page', import.meta.url))).catch(() => {
      // The bundler has said why.
      process.exitCode = 1
    })
  }
}
