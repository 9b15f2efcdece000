import { spawn, type ChildProcess } from 'node:child_process'
import { Socket } from 'node:net'
import { createClient } from 'redis'
import type { Store } from '../../../src/ports.js'
import type { RedisSource } from '../../../src/stores/redis/index.js'
import { openRedisStore, type RedisStoreOptions } from '../../../src/stores/redis/redis-store.js'
import { temporaryFolder } from '../fixtures/store-folder.js'
import { freePort } from '../faults/tcp-proxy.js'

/** Redis or Valkey server that a test may stop and start. */
export interface TestRedis {
  readonly url: string
  readonly port: number
  /** Sends one command through a new connection, and returns the answer. */
  command(...args: string[]): Promise<unknown>
  /** Suspends the process: connections stay open, but nothing is answered. */
  pause(): void
  resume(): void
  /** Ends the process at once, as a crash does. */
  kill(): Promise<void>
  /** Starts the server again on the same port, with the data in its folder. */
  start(): Promise<void>
  /** Ends the process, and removes its folder. */
  stop(): Promise<void>
}

/**
 * Starts a server on a free port. Without `settings`, it persists nothing.
 *
 * @param settings - arguments of its command line, such as `['--maxmemory', '3mb']`
 */
export async function startRedis(settings: readonly string[] = []): Promise<TestRedis> {
  const { path: folder, remove } = temporaryFolder()
  let port = await freePort()
  // A node of a cluster also listens on the port 10,000 above, which has to be below those that the system assigns.
  while (port >= 22_000) port = await freePort()
  const serverArguments = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder]
  const args = [...serverArguments, '--save', '', '--appendonly', 'no', ...settings]
  let server = await launch(args)
  const kill = async (): Promise<void> => {
    if (server.exitCode !== null || server.signalCode !== null) return
    server.ref()
    const ended = new Promise((resolve) => server.once('exit', resolve))
    server.kill('SIGKILL')
    await ended
  }
  const url = `redis://127.0.0.1:${port}`
  return {
    url,
    port,
    command: (...command) => sendTo(url, command),
    pause: () => void server.kill('SIGSTOP'),
    resume: () => void server.kill('SIGCONT'),
    kill,
    async start() {
      server = await launch(args)
    },
    async stop() {
      await kill()
      remove()
    }
  }
}

/**
 * Returns the server for tests that never stop it: that of `TEST_REDIS_URL`, otherwise a new one. Other tests may use
 * the same server, so keys need a prefix.
 */
export async function testRedis(): Promise<Pick<TestRedis, 'url' | 'command' | 'stop'>> {
  const url = process.env.TEST_REDIS_URL
  if (url === undefined || url === '') return startRedis()
  return { url, command: (...command) => sendTo(url, command), stop: () => Promise.resolve() }
}

/** Sends one command through a new connection. */
async function sendTo(url: string, command: string[]): Promise<unknown> {
  const client = await createClient({ url, RESP: 2 })
    .on('error', () => undefined)
    .connect()
  try {
    return await client.sendCommand(command)
  } finally {
    client.destroy()
  }
}

async function launch(args: readonly string[]): Promise<ChildProcess> {
  const server = spawn(process.env.REDIS_SERVER ?? 'redis-server', args, { stdio: ['ignore', 'pipe', 'ignore'] })
  const stop = (): void => void server.kill('SIGKILL')
  process.once('exit', stop)
  server.once('exit', () => process.off('exit', stop))
  await new Promise<void>((resolve, reject) => {
    let output = ''
    server.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString()
      if (/[Rr]eady to accept connections/.test(output)) resolve()
    })
    server.once('error', reject)
    server.once('exit', () => reject(new Error(`the Redis server ended: ${output.slice(-500)}`)))
  })
  // Discards later output, which would otherwise fill the pipe.
  server.stdout.removeAllListeners('data').resume()
  // A test that fails before it can stop its server must not keep Jest waiting.
  server.unref()
  if (server.stdout instanceof Socket) server.stdout.unref()
  return server
}

/**
 * Returns a Redis store for the session ids of the contract suite. These ids all begin with the same 8 characters, the
 * tag. All users of a service therefore share one key, like two users with equal tags.
 */
export function suiteStore(source: RedisSource, options: RedisStoreOptions = {}, tag = 'session-'): Store {
  const logger = { warn: () => undefined }
  return openRedisStore(source, { logger, ...options }, () => tag)
}
