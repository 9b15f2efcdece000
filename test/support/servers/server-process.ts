import express from 'express'
import { spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { nodeOptions, scriptFile } from './run-script.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))
const imports = pathToFileURL(scriptFile('test/support/servers/server-imports.ts')).href

export type Env = Record<string, string>

/** A process that ran to its end. */
export interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

/** The commands of the bin that start servers. */
export type ServerCommand = 'auth' | 'relay' | 'vault' | 'all'

/** Content of the ready line of a server. */
export interface ReadyServer {
  server: string
  url: string
  serviceUrl: string
  serviceDid: string
}

/** Servers in a process of their own, started as the bin would start them, but from the sources. */
export interface ServerProcess extends ReadyServer {
  /** One, or the three of `all` in the order in which they started; the fields above are those of the first. */
  servers: ReadyServer[]
  /** Time between the start of the process and its last ready line. */
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
  hooks: readonly string[] = [],
  cwd = root
): { child: ChildProcess; output: () => string; ended: Promise<Ended> } {
  const options = [...nodeOptions, '--import', imports, ...hooks.flatMap((hook) => ['--import', hook])]
  const child = spawn(process.execPath, [...options, scriptFile('servers/cli.ts'), ...args], {
    cwd,
    env: { PATH: process.env.PATH, ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => (stdout += chunk))
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk))
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code) => resolve({ code, stdout, stderr }))
  })
  return { child, output: () => stdout + stderr, ended }
}

/** Runs the bin to its end. */
export function runCli(args: string[], env: Env = {}): Promise<Ended> {
  return spawnCli(args, env).ended
}

/** Times are real here: no window of challenges ends within a test, save at midnight. */
const LONG_WINDOW: Env = { CHALLENGE_EXPIRATION_TIME_IN_SECONDS: '86400' }

/**
 * Starts a server on a free port, or all on three, and resolves when it says that it is ready, or that it waits for a
 * database or Redis.
 */
export async function startServer(
  env: Env,
  hooks: readonly string[] = [],
  command: ServerCommand = 'auth'
): Promise<ServerProcess> {
  const startedAt = performance.now()
  const ports: Env = command === 'all' ? { AUTH_PORT: '0', RELAY_PORT: '0', VAULT_PORT: '0' } : { PORT: '0' }
  const { child, output, ended } = spawnCli([command], { ...ports, ...LONG_WINDOW, ...env }, hooks)
  const servers = await new Promise<ReadyServer[]>((resolve, reject) => {
    child.stdout?.on('data', () => {
      const lines = output().split('\n').slice(0, -1)
      const ready = lines.filter((line) => /"event":"(?:ready|waiting)"/.test(line))
      if (ready.length === (command === 'all' ? 3 : 1)) resolve(ready.map((line) => JSON.parse(line) as ReadyServer))
    })
    void ended.then(({ code, stderr }) => reject(new Error(`the server ended with ${String(code)}: ${stderr}`)))
  })
  const [{ server, url, serviceUrl, serviceDid }] = servers as [ReadyServer]
  return {
    server,
    url,
    serviceUrl,
    serviceDid,
    servers,
    startMilliseconds: performance.now() - startedAt,
    output,
    signal: (signal) => child.kill(signal),
    ended
  }
}

/** Starts servers in a folder of their own, with the Express that this process has. */
export class ServerProcesses {
  readonly #env: Env
  readonly #all: ServerProcess[] = []
  readonly #folder = join(tmpdir(), `did-auth-servers-${randomUUID()}`)

  constructor(env: Env = {}) {
    this.#env = env
  }

  /** `DATA_DIR`: made when it is asked for, and again after {@link killAll}. */
  get folder(): string {
    mkdirSync(this.#folder, { recursive: true })
    return this.#folder
  }

  async start(env: Env = {}, hooks: readonly string[] = [], command?: ServerCommand): Promise<ServerProcess> {
    const usual = { DATA_DIR: this.folder, TEST_EXPRESS: String(expressMajor) }
    const server = await startServer({ ...usual, ...this.#env, ...env }, hooks, command)
    this.#all.push(server)
    return server
  }

  /** Ends them, and leaves the folder. */
  async stopAll(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    for (const server of this.#all) server.signal(signal)
    await Promise.all(this.#all.splice(0).map(({ ended }) => ended))
  }

  /** Ends what is left of them, and removes the folder. */
  async killAll(): Promise<void> {
    await this.stopAll('SIGKILL')
    // A server whose npm was ended may still be writing.
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 })
  }
}

/** The major version that `express` means here: `app.del` went with the fourth. */
const expressMajor = 'del' in express.application ? 4 : 5
