import { afterAll, beforeAll, describe, expect, it } from '@jest/globals'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { packAll, root, runIn, type PackedPackage } from '../../support/engines/packed-package.js'

/** A page that also runs in Node. It loads no part on demand, because Vite and webpack need a document for that. */
const PAGE = `import { DidAuthClient, findWallets, local } from 'express-did-auth-client'
const auth = new DidAuthClient({ url: 'http://localhost:3000/', storage: local() })
auth.ready.then(() => console.log(auth.url, typeof findWallets))
`

const CONSUMER = `import { DidAuthClient, type ClientStorage, type DidAuthClientError, type Wallet } from 'express-did-auth-client'

declare const storage: ClientStorage
declare const wallet: Wallet
export const auth = new DidAuthClient({ url: 'https://api.example', wallet, storage, signUp: { claims: [] } })
export const answer: Promise<Response> = auth.fetch(new URL('https://api.example/notes'), { method: 'POST', body: 'a' })
export const readEtag = (error: DidAuthClientError): string | undefined => (error.code === 'CONFLICT' ? error.etag : undefined)
export const end: () => void = auth.subscribe((session) => session?.did.length)
`

describe('the packed client', () => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'did-auth-client-')))
  const project = join(folder, 'project')
  let packed: PackedPackage = { tarball: '', files: [] }
  let installed: string[] = []
  const resolveSlowPackage = (name: string): string => join(root, 'test/slow/node_modules', name)

  beforeAll(async () => {
    mkdirSync(project)
    packed = (await packAll()).client
    writeFileSync(join(project, 'package.json'), '{ "private": true, "type": "module" }\n')
    const options = ['--ignore-scripts', '--no-audit', '--no-fund', '--prefer-offline', '--loglevel=error']
    await runIn(project, 'npm', 'install', ...options, packed.tarball)
    const record = readFileSync(join(project, 'node_modules/.package-lock.json'), 'utf8')
    installed = Object.keys((JSON.parse(record) as { packages: object }).packages)
    await runIn(project, 'npm', 'install', ...options, '@types/node@20')
    writeFileSync(join(project, 'page.js'), PAGE)
    writeFileSync(join(project, 'index.html'), '<script type="module" src="/page.js"></script>\n')
  }, 600_000)

  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  /** Verifies that a bundle needs only the files next to it, and that it runs in Node. */
  async function expectToRun(name: string, file: string): Promise<void> {
    const code = readFileSync(join(project, file))
    process.stdout.write(`client by ${name}: ${gzipSync(code, { level: 9 }).length} bytes of gzip\n`)
    expect(code.toString()).not.toMatch(/node:|require\(|from\s*["'](?!\.\/)/)
    expect(await runIn(project, process.execPath, file)).toBe('http://localhost:3000 function\n')
  }

  it('installs at most 4 packages in an empty folder, and not the library', () => {
    process.stdout.write(`client: ${installed.length} packages, ours included\n`)
    expect(installed).toContain('node_modules/express-did-auth-client')
    expect(installed).not.toContain('node_modules/express-did-auth')
    expect(installed.length).toBeLessThanOrEqual(4)
  })

  it('contains only the build and documents, with every file that package.json names', () => {
    const isBuild = (path: string): boolean => /^dist\/(?:client|protocol)\/.+\.(?:js|d\.ts)$/.test(path)
    const others = packed.files.filter((path) => !isBuild(path))
    expect(others.sort()).toEqual(['ERRORS.md', 'KEYS.md', 'LICENSE', 'MACHINES.md', 'README.md', 'package.json'])
    const text = readFileSync(join(root, 'src/client/package.json'), 'utf8')
    const named = [...text.matchAll(/"\.\/(dist\/[^"]+)"/g)].map(([, path = '']) => path)
    expect(named.length).toBeGreaterThan(14)
    expect(named.filter((path) => !packed.files.includes(path))).toEqual([])
  })

  it('passes publint and are-the-types-wrong', async () => {
    await runIn(folder, resolveSlowPackage('.bin/publint'), 'run', packed.tarball, '--strict')
    const options = ['--profile', 'node16', '--ignore-rules', 'cjs-resolves-to-esm']
    await runIn(folder, resolveSlowPackage('.bin/attw'), packed.tarball, ...options)
  }, 60_000)

  it('can be bundled by esbuild', async () => {
    const options = ['--bundle', '--minify', '--format=esm', '--outfile=by-esbuild.mjs']
    await runIn(project, join(root, 'node_modules/.bin/esbuild'), 'page.js', ...options)
    await expectToRun('esbuild', 'by-esbuild.mjs')
  }, 60_000)

  it('can be bundled by Vite', async () => {
    // The polyfill that Vite adds for old browsers needs a document.
    const config = 'export default { build: { modulePreload: { polyfill: false } } }\n'
    writeFileSync(join(project, 'vite.config.js'), config)
    await runIn(project, process.execPath, resolveSlowPackage('vite/bin/vite.js'), 'build', '--logLevel=error')
    // The parts that load on demand are in the same folder.
    const file = readdirSync(join(project, 'dist/assets')).find((name) => /^index-.*\.js$/.test(name))
    await expectToRun('Vite', `dist/assets/${file!}`)
  }, 120_000)

  it('can be bundled by webpack', async () => {
    const script = `import webpack from ${JSON.stringify(resolveSlowPackage('webpack/lib/index.js'))}
const output = { path: import.meta.dirname, filename: 'by-webpack.mjs', publicPath: '', globalObject: 'globalThis' }
webpack({ mode: 'production', target: 'web', entry: './page.js', output }, (error, stats) => {
  if (error || stats.hasErrors()) throw error ?? new Error(stats.toString())
})
`
    writeFileSync(join(project, 'webpack.mjs'), script)
    await runIn(project, process.execPath, 'webpack.mjs')
    await expectToRun('webpack', 'by-webpack.mjs')
  }, 120_000)

  it.each([
    ['Node types and no DOM', { types: ['node'], lib: ['ES2023'] }],
    ['the DOM and no Node types', { types: [], lib: ['ES2023', 'DOM'] }]
  ])(
    'has types for strict users with %s, who check libraries too',
    async (_name, kind) => {
      writeFileSync(join(project, 'consumer.ts'), CONSUMER)
      const options = {
        strict: true,
        exactOptionalPropertyTypes: true,
        target: 'es2023',
        noEmit: true,
        skipLibCheck: false
      }
      const compilerOptions = { ...options, module: 'esnext', moduleResolution: 'bundler', ...kind }
      writeFileSync(join(project, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['consumer.ts'] }))
      // Before 5.7, `Uint8Array` has no type parameter.
      for (const compiler of [join(root, 'node_modules/typescript'), resolveSlowPackage('typescript5.7')]) {
        await runIn(project, process.execPath, join(compiler, 'bin/tsc'), '-p', '.')
      }
    },
    60_000
  )
})
