import { build, type Plugin } from 'esbuild'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { dirname, join } from 'node:path'
import { readDocument, root } from '../fixtures/documents.js'
import { listenAt } from '../fixtures/client-error.js'
import { serviceWallet } from '../fixtures/fixtures.js'
import { until } from '../fixtures/until.js'
import { runIn } from './packed-package.js'
import { startWorker } from './workerd.js'

const slow = join(root, 'test/slow/node_modules')
const BUN = join(slow, '@oven/bun-linux-x64/bin/bun')
const DENO = join(slow, '@deno/linux-x64-glibc/deno')
const DENO_OPTIONS = ['run', '--allow-net', '--allow-env', '--allow-read', '--cached-only', 'deno.js']
const NEXT = join(slow, 'next/dist/bin/next')
const WORKERD = join(slow, '@cloudflare/workerd-linux-64/bin/workerd')

const environment: Readonly<Record<string, string>> = {
  CHALLENGE_SECRET: 'a secret of the tests, longer than 32 bytes',
  SERVICE_URL: 'https://service.example',
  PRIVATE_KEY: serviceWallet.privateKey,
  NEXT_TELEMETRY_DISABLED: '1'
}

/** One framework or runtime of src/fetch/README.md. */
export interface Framework {
  /** Heading of its chapter. */
  name: string
  /** Path of the login. */
  mountPath: string
  /** Starts its service, which has its tokens in cookies if `useCookies` is true. */
  start: (folder: string, useCookies: boolean) => Promise<RunningService>
}

/** A service that listens. */
interface RunningService {
  url: string
  stop: () => Promise<void>
}

/** Starts a program that listens on the port in a variable. */
async function run(
  folder: string,
  useCookies: boolean,
  command: string,
  ...options: string[]
): Promise<RunningService> {
  const { url, close } = await listenAt(() => undefined)
  await close()
  const { port } = new URL(url)
  const env = { ...process.env, ...environment, PORT: port, USE_COOKIES: String(useCookies) }
  const child = spawn(command, options, { cwd: folder, env, stdio: ['ignore', 'ignore', 'pipe'] })
  let errors = ''
  child.stderr.on('data', (text: Buffer) => (errors += text.toString()))
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`${command} ${options.join(' ')} ended\n${errors}`)
    return fetch(url).then(
      () => true,
      () => false
    )
  })
  const stop = async (): Promise<void> => {
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }
  return { url, stop }
}

const runNode =
  (file: string): Framework['start'] =>
  (folder, useCookies) =>
    run(folder, useCookies, process.execPath, file)

const frameworks: readonly Framework[] = [
  { name: 'Hono', mountPath: '', start: runNode('hono.js') },
  {
    name: 'Next.js',
    mountPath: '/api',
    start: (folder, useCookies) => run(join(folder, 'next'), useCookies, process.execPath, NEXT, 'start')
  },
  { name: 'Fastify', mountPath: '/login', start: runNode('fastify.js') },
  { name: 'h3 and Nitro', mountPath: '/login', start: runNode('h3-and-nitro.js') },
  { name: 'Bun', mountPath: '', start: (folder, useCookies) => run(folder, useCookies, BUN, 'bun.js') },
  { name: 'Deno', mountPath: '', start: (folder, useCookies) => run(folder, useCookies, DENO, ...DENO_OPTIONS) },
  {
    name: 'Cloudflare Workers',
    mountPath: '',
    start: (folder, useCookies) => {
      const variables = { ...environment, USE_COOKIES: String(useCookies) }
      return startWorker(join(folder, 'worker.js'), variables, ['nodejs_compat'])
    }
  }
]

/** Frameworks whose programs are installed. npm has Bun, Deno and workerd only for Linux x64. */
export const installedFrameworks = frameworks.filter(({ name }) => {
  const program = { Bun: BUN, Deno: DENO, 'Cloudflare Workers': WORKERD }[name]
  return process.env.NO_SKIPS === '1' || program === undefined || existsSync(program)
})

/** Returns the blocks of code in a chapter of src/fetch/README.md. */
function readChapter(name: string): string[] {
  const chapter = readDocument('src/fetch/README.md')
    .text.split(/^## /m)
    .find((text) => text.startsWith(`${name}\n`))
  return [...(chapter ?? '').matchAll(/^```js\n([^]*?)^```$/gm)].map(([, code = '']) => code)
}

/**
 * Writes the mounts of src/fetch/README.md into a new folder, on the port of a variable, with the library of this
 * checkout and the packages of the slow tests. It builds the app of Next.js and the Worker.
 */
export async function writeFrameworks(): Promise<{ folder: string; remove: () => void }> {
  mkdirSync(join(root, '.cache'), { recursive: true })
  // Packages of the library are found upwards, in the node_modules of this checkout.
  const folder = mkdtempSync(join(root, '.cache/frameworks-'))
  const write = (file: string, text: string): void => {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), text)
  }
  const link = (name: string): void => {
    mkdirSync(dirname(join(folder, 'node_modules', name)), { recursive: true })
    symlinkSync(join(slow, name), join(folder, 'node_modules', name))
  }
  for (const name of ['hono', '@hono/node-server', 'fastify', 'h3', 'next', 'react', 'react-dom']) link(name)
  write('package.json', '{ "private": true, "type": "module" }')
  write(
    'node_modules/express-did-auth/package.json',
    '{ "name": "express-did-auth", "type": "module", "exports": { "./fetch": "./fetch.js" } }'
  )
  await build({
    entryPoints: [join(root, 'src/fetch/index.ts')],
    outfile: join(folder, 'node_modules/express-did-auth/fetch.js'),
    bundle: true,
    packages: 'external',
    platform: 'node',
    format: 'esm',
    target: 'node20'
  })
  const [setUp = ''] = readChapter('Set up')
  const didAuth = setUp.replace('siwe: true', "siwe: true, useCookies: process.env.USE_COOKIES === 'true'")
  write('did-auth.js', didAuth)
  for (const { name } of frameworks) {
    const code = readChapter(name).join('\n').replaceAll('3000', 'Number(process.env.PORT)')
    write(`${name.toLowerCase().replaceAll(/\W+/g, '-')}.js`, code)
  }
  await Promise.all([buildWorker(folder), buildNext(folder, write, didAuth)])
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

async function buildNext(folder: string, write: (file: string, text: string) => void, didAuth: string): Promise<void> {
  const [login = '', profile = ''] = readChapter('Next.js')
  write('next/package.json', '{ "private": true, "type": "module" }')
  // Replaces the paths of this checkout's tsconfig.json.
  write('next/jsconfig.json', '{}')
  write('next/next.config.js', "export default { serverExternalPackages: ['express-did-auth'] }")
  write('next/did-auth.js', didAuth)
  write('next/app/api/[...path]/route.js', login)
  write('next/app/api/profile/route.js', profile)
  const variables = Object.entries(environment).map(([name, value]) => `${name}=${value}`)
  await runIn(join(folder, 'next'), 'env', ...variables, process.execPath, NEXT, 'build')
}

/** Bundles the Worker as Wrangler does: modules of Node stay imports, also where CommonJS packages require them. */
async function buildWorker(folder: string): Promise<void> {
  const names = builtinModules.filter((name) => /^[a-z]/.test(name)).join('|')
  const nodeModules: Plugin = {
    name: 'node-modules',
    setup(bundler) {
      bundler.onResolve({ filter: new RegExp(`^(?:node:)?(?:${names})$`) }, ({ path, kind }) => {
        const name = `node:${path.replace('node:', '')}`
        return kind === 'require-call' ? { path: name, namespace: 'required' } : { path: name, external: true }
      })
      bundler.onLoad({ filter: /^/, namespace: 'required' }, ({ path }) => ({
        contents: `import * as names from '${path}'\nmodule.exports = names.default ?? names`
      }))
    }
  }
  await build({
    entryPoints: [join(folder, 'cloudflare-workers.js')],
    outfile: join(folder, 'worker.js'),
    bundle: true,
    format: 'esm',
    conditions: ['workerd', 'worker', 'browser'],
    external: ['secp256k1/bindings.js'],
    plugins: [nodeModules]
  })
}
