import express from 'express'
import { spawn, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { nameOptions, nodeOptions, scriptFile } from './run-script.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))

export type Env = Record<string, string>

/** Result of a process that has ended. */
export interface Ended {
  code: number | null
  stdout: string
  stderr: string
}

/** Command of the bin that starts servers. */
export type ServerCommand = 'auth' | 'relay' | 'vault' | 'all'

/** Content of the ready line of a server. */
export interface ReadyServer {
  server: string
  url: string
  serviceUrl: string
  serviceDid: string
}

/** Servers in a separate process, started like the bin but from the sources. */
export interface ServerProcess extends ReadyServer {
  /** One server, or the three of `all` in the order of their start. The inherited fields are those of the first. */
  servers: ReadyServer[]
  /** Time between the start of the process and its last ready line. */
  startMilliseconds: number
  /** Returns all output so far. */
  output(): string
  signal(signal: NodeJS.Signals): void
  ended: Promise<Ended>
}

/** Starts the bin, and does not wait for its end. */
export function spawnCli(
  args: string[],
  env: Env,
  hooks: readonly string[] = [],
  cwd = root
): { child: ChildProcess; output: () => string; ended: Promise<Ended> } {
  const options = [...nodeOptions, ...nameOptions(env), ...hooks.flatMap((hook) => ['--import', hook])]
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

/** Runs the bin, and waits for its end. */
export function runCli(args: string[], env: Env = {}): Promise<Ended> {
  return spawnCli(args, env).ended
}

/** Challenge window of a day. Servers in processes use real time, and so a window ends only at midnight (UTC). */
const LONG_WINDOW: Env = { CHALLENGE_EXPIRATION_TIME_IN_SECONDS: '86400' }

/**
 * Starts a server on a free port, or all three on three ports. Resolves when each one reports that it is ready, or that
 * it waits for a database or Redis.
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
      const ready = lines.filter((line) => /"event":"(?:ready|waiting)"/.test(line) && !line.includes('"DATA_DIR"'))
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

/** Servers that share a new folder, and use the Express version of this process. */
export class ServerProcesses {
  readonly #env: Env
  readonly #all: ServerProcess[] = []
  readonly #folder = join(tmpdir(), `did-auth-servers-${randomUUID()}`)

  constructor(env: Env = {}) {
    this.#env = env
  }

  /** Value of `DATA_DIR`. The folder is created on each access, also after {@link killAll}. */
  get folder(): string {
    mkdirSync(this.#folder, { recursive: true })
    return this.#folder
  }

  async start(env: Env = {}, hooks: readonly string[] = [], command?: ServerCommand): Promise<ServerProcess> {
    const defaults = { DATA_DIR: this.folder, TEST_EXPRESS: String(expressMajor) }
    const server = await startServer({ ...defaults, ...this.#env, ...env }, hooks, command)
    this.#all.push(server)
    return server
  }

  /** Stops all servers, and keeps the folder. */
  async stopAll(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    for (const server of this.#all) server.signal(signal)
    await Promise.all(this.#all.splice(0).map(({ ended }) => ended))
  }

  /** Kills the remaining servers, and removes the folder. */
  async killAll(): Promise<void> {
    await this.stopAll('SIGKILL')
    // A server may still write files after the npm process that started it was killed.
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 })
  }
}

/** Major version of the installed `express`. Only version 4 has `app.del`. */
const expressMajor = 'del' in express.application ? 4 : 5
