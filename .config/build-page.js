import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const source = fileURLToPath(new URL('../servers/page', import.meta.url))

/**
 * Bundles the page of the auth server. Each build does this, because it takes only a tenth of a second.
 *
 * @param {string} folder - target folder
 * @param {{ fromSources?: boolean }} [options] - bundle the library's sources instead of its build
 */
export async function buildPage(folder, { fromSources = false } = {}) {
  mkdirSync(folder, { recursive: true })
  for (const name of ['index.html', 'open.html', 'page.css', 'page.svg']) cpSync(join(source, name), join(folder, name))
  await build({
    entryPoints: ['page.ts', 'open.ts'].map((name) => join(source, name)),
    outdir: folder,
    bundle: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    minify: true,
    legalComments: 'none',
    logLevel: 'warning',
    // The `paths` of this file map the library's name to its sources.
    ...(fromSources ? { tsconfig: join(source, '../../tsconfig.json') } : { tsconfigRaw: {} })
  })
}
