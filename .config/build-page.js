import { cpSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const source = fileURLToPath(new URL('../servers/auth/page', import.meta.url))

/**
 * Bundles the page of the auth server. It takes a tenth of a second, so it is done at each build.
 *
 * @param {string} folder - target folder
 * @param {{ fromSources?: boolean }} [options] - with the library's sources in place of its build
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
    // Its `paths` let the library's name mean the sources.
    ...(fromSources ? { tsconfig: join(source, '../../../tsconfig.json') } : { tsconfigRaw: {} })
  })
}
