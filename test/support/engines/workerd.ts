import { build } from 'esbuild'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { temporaryFolder } from '../fixtures/store-folder.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))
/** The Workers runtime, as test/slow/package.json installs it on Linux x64. */
const PROGRAM = join(root, 'test/slow/node_modules/@cloudflare/workerd-linux-64/bin/workerd')

/** Guard of another service. It passes `waitUntil` of each request, since Workers cancel fetches after the response. */
const GUARD = `import { accessTokenVerifier, DidAuthError, errorStatuses } from './src/verify/index.js'
let verify
export default {
  async fetch(request, { issuer, audience, url }, context) {
    verify ??= accessTokenVerifier({ issuer, audience, endedSessions: { url } })
    try {
      const { did } = await verify.request(request, { waitUntil: (work) => context.waitUntil(work) })
      return Response.json({ did })
    } catch (error) {
      if (!(error instanceof DidAuthError)) throw error
      return Response.json({ code: error.code }, { status: errorStatuses[error.code] })
    }
  }
}`

/** A program in the Workers runtime. */
export interface RunningWorker {
  url: string
  port: number
  stop(): Promise<void>
}

/** Starts a Worker whose routes all need an access token of a service, and that reads its list of ended sessions. */
export function startGuardWorker(options: Record<'issuer' | 'audience' | 'url', string>): Promise<RunningWorker> {
  return startWorkerOfSource(GUARD, options)
}

/**
 * Bundles a module, and starts it as a Worker.
 *
 * @param source - module that imports from the root of the repository
 * @param variables - texts in the Worker's environment
 */
export async function startWorkerOfSource(
  source: string,
  variables: Readonly<Record<string, string>>
): Promise<RunningWorker> {
  const folder = temporaryFolder()
  const file = join(folder.path, 'worker.js')
  await build({
    stdin: { contents: source, resolveDir: root },
    outfile: file,
    bundle: true,
    format: 'esm',
    conditions: ['workerd', 'worker', 'browser']
  })
  const { stop, ...worker } = await startWorker(file, variables)
  const stopAndRemove = async (): Promise<void> => {
    await stop()
    folder.remove()
  }
  return { ...worker, stop: stopAndRemove }
}

/**
 * Starts a Worker.
 *
 * @param file - its bundle
 * @param variables - its bindings
 */
export async function startWorker(
  file: string,
  variables: Readonly<Record<string, string>>,
  flags: readonly string[] = []
): Promise<RunningWorker> {
  const bindings = Object.entries(variables).map(([name, text]) => `(name = "${name}", text = ${JSON.stringify(text)})`)
  const config = `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .service),
    (name = "internet", network = (allow = ["local"]))
  ],
  sockets = [(name = "http", address = "127.0.0.1:0", http = (), service = "main")]
);
const service :Workerd.Worker = (
  modules = [(name = "worker.js", esModule = embed "${basename(file)}")],
  bindings = [${bindings.join(', ')}],
  compatibilityDate = "2026-01-01",
  compatibilityFlags = ${JSON.stringify(flags)}
);
`
  const configFile = join(dirname(file), `${randomUUID()}.capnp`)
  writeFileSync(configFile, config)
  const child = spawn(PROGRAM, ['serve', configFile, '--control-fd=3'], {
    stdio: ['ignore', 'ignore', 'inherit', 'pipe']
  })
  const stop = async (): Promise<void> => {
    const ended = child.exitCode === null && child.signalCode === null ? once(child, 'exit') : undefined
    child.kill('SIGKILL')
    await ended
  }
  try {
    const port = await readPort(child.stdio[3] as Readable)
    return { url: `http://127.0.0.1:${port}`, port, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Reads the port that the runtime reports once it listens. @throws Error if it ends before */
async function readPort(reports: Readable): Promise<number> {
  let text = ''
  for await (const piece of reports) {
    text += String(piece)
    const port = /"event":"listen".*"port":(\d+)/.exec(text)?.[1]
    if (port !== undefined) return Number(port)
  }
  throw new Error('the Workers runtime ended')
}
