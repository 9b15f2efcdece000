import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { runInParallel } from './harness.js'
import { Connection } from './http-client.js'

const resolvePath = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

/** Script that reports the resource usage on request. It also runs in threads, which have no IPC channel. */
const REPORT = `data:text/javascript,${encodeURIComponent(`
  process.on('message', () => {
    globalThis.gc?.()
    const { user, system } = process.cpuUsage()
    const { rss, heapUsed, external } = process.memoryUsage()
    process.send({ cpuMicroseconds: user + system, rss, used: heapUsed + external })
  })
  process.on('disconnect', () => process.exit())
  process.channel?.unref()`)}`

/** Resources that a process has used so far; bytes are after garbage collection if started with `--expose-gc`. */
export interface Usage {
  cpuMicroseconds: number
  rss: number
  /** Bytes on the heap and outside of it. */
  used: number
}

/** Server in a separate process. */
export interface BenchServer {
  port: number
  usage(): Promise<Usage>
  stop(): Promise<void>
}

/** Starts an application of `server.ts`. */
export async function startServer(
  name: string,
  args: readonly string[] = [],
  execArgv: readonly string[] = []
): Promise<BenchServer> {
  const child = fork(resolvePath('server.ts'), [name, ...args], {
    execArgv: ['--import', 'tsx', ...execArgv, '--import', REPORT]
  })
  const { port } = await nextMessage<{ port: number }>(child)
  return { port, ...createControl(child) }
}

/** Starts the application of `fetch-server.ts` on a runtime. */
export async function startFetchServer(program: string): Promise<BenchServer> {
  const isNode = program === process.execPath
  const child = fork(resolvePath('fetch-server.ts'), [], {
    execPath: program,
    execArgv: isNode ? ['--import', 'tsx'] : [],
    serialization: 'json'
  })
  const { port } = await nextMessage<{ port: number }>(child)
  return { port, ...createControl(child) }
}

/** Content of a ready line that the bin prints. */
export interface BuiltServer {
  server: string
  url: string
  serviceUrl: string
}

/** Starts a command of the built bin, and resolves when all its servers are ready. */
export async function startBin(
  command: 'relay' | 'all',
  env: Record<string, string>,
  execArgv: readonly string[] = []
): Promise<BenchServer & { servers: readonly BuiltServer[] }> {
  const child = fork(resolvePath('../../servers/dist/bin.js'), [command], {
    execArgv: [...execArgv, '--import', REPORT],
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
    env: { PATH: process.env.PATH, LOG_LEVEL: 'warn', MAX_REQUESTS_PER_TIME_SLOT: '100000000', ...env }
  })
  const servers: BuiltServer[] = []
  let output = ''
  while (servers.length < (command === 'all' ? 3 : 1)) {
    const [piece] = (await once(child.stdout!, 'data')) as [Buffer]
    const lines = (output + piece.toString()).split('\n')
    output = lines.pop() ?? ''
    for (const line of lines) if (line.includes('"event":"ready"')) servers.push(JSON.parse(line) as BuiltServer)
  }
  child.stdout?.resume()
  return { port: Number(new URL(servers[0]!.url).port), servers, ...createControl(child) }
}

/** Starts a load of `load.ts` on a server. @returns a function that stops it */
export async function startLoad(port: number, kind: string, perSecond: number): Promise<() => void> {
  const child = fork(resolvePath('load.ts'), [port, kind, perSecond].map(String), { execArgv: ['--import', 'tsx'] })
  // Waits until the load has started, which is not measured.
  await pause(1_500)
  return () => child.kill()
}

/** Function that executes one step of a client, with one or more requests. */
export type Step = (connection: Connection, index: number, worker: number) => Promise<unknown>

/** Runs this many steps over this many connections, and returns the server's CPU time per step in microseconds. */
export async function measureStepCost(server: BenchServer, total: number, step: Step, clients = 16): Promise<number> {
  const connections = Array.from({ length: clients }, () => new Connection(server.port))
  const before = await server.usage()
  await runInParallel(clients, total, (index, worker) => step(connections[worker]!, index, worker))
  const after = await server.usage()
  for (const connection of connections) connection.close()
  return (after.cpuMicroseconds - before.cpuMicroseconds) / total
}

function createControl(child: ChildProcess): Pick<BenchServer, 'usage' | 'stop'> {
  return {
    usage() {
      const answer = nextMessage<Usage>(child)
      child.send('usage')
      return answer
    },
    async stop() {
      const ended = once(child, 'exit')
      child.kill()
      await ended
    }
  }
}

function nextMessage<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    const end = (): void => reject(new Error('a server ended'))
    child.once('exit', end)
    child.once('message', (message) => {
      child.off('exit', end)
      resolve(message as T)
    })
  })
}
