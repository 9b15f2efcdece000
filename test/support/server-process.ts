import { spawn, type ChildProcess } from 'node:child_process'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))
const imports = pathToFileURL(`${root}test/support/server-imports.ts`).href

export type Env = Record<string, string>

/** A process that ran to its end. */
export interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

/** A server in a process of its own, started as the bin would start it, but from the sources. */
export interface ServerProcess {
  url: string
  serviceUrl: string
  serviceDid: string
  /** From the start of the process to its ready line. */
  startMilliseconds: number
  /** Everything that it wrote so far. */
  output(): string
  signal(signal: NodeJS.Signals): void
  ended: Promise<Ended>
}

/** Runs the bin, and leaves it to itself. */
export function spawnCli(
  args: string[],
  env: Env,
  hooks: readonly string[] = []
): { child: ChildProcess; output: () => string; ended: Promise<Ended> } {
  const options = ['--import', 'tsx', '--import', imports, ...hooks.flatMap((hook) => ['--import', hook])]
  const child = spawn(process.execPath, [...options, 'servers/cli.ts', ...args], {
    cwd: root,
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (stdout += chunk))
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk))
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code) => {
      resolve({ code, stdout, stderr })
    })
  })
  return { child, output: () => stdout + stderr, ended }
}

/** Runs the bin to its end. */
export function runCli(args: string[], env: Env = {}): Promise<Ended> {
  return spawnCli(args, env).ended
}

/** Starts the auth server on a free port, and resolves when it says that it is ready. */
export async function startServer(env: Env, hooks: readonly string[] = []): Promise<ServerProcess> {
  const startedAt = performance.now()
  const { child, output, ended } = spawnCli(['auth'], { PORT: '0', ...env }, hooks)
  const line = await new Promise<string>((resolve, reject) => {
    child.stdout?.on('data', () => {
      const found = output()
        .split('\n')
        .find((text) => text.includes('"event":"ready"') && text.endsWith('}'))
      if (found !== undefined) resolve(found)
    })
    void ended.then(({ code, stderr }) => {
      reject(new Error(`the server ended with ${String(code)}: ${stderr}`))
    })
  })
  const { url, serviceUrl, serviceDid } = JSON.parse(line) as Record<'url' | 'serviceUrl' | 'serviceDid', string>
  return {
    url,
    serviceUrl,
    serviceDid,
    startMilliseconds: performance.now() - startedAt,
    output,
    signal: (signal) => child.kill(signal),
    ended
  }
}

/** Starts servers in one folder, and ends what is left of them. */
export class ServerProcesses {
  readonly #env: Env
  readonly #all: ServerProcess[] = []

  constructor(env: Env) {
    this.#env = env
  }

  async start(env: Env = {}, hooks: readonly string[] = []): Promise<ServerProcess> {
    const server = await startServer({ ...this.#env, ...env }, hooks)
    this.#all.push(server)
    return server
  }

  async killAll(): Promise<void> {
    for (const server of this.#all) server.signal('SIGKILL')
    await Promise.all(this.#all.map(({ ended }) => ended))
  }
}
