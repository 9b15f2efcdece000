import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const cli = fileURLToPath(new URL('../../servers/dist/bin.js', import.meta.url))

/** Loaded into the bin, and into its threads, which have no channel: tells what its process takes when asked. */
const tell = `data:text/javascript,${encodeURIComponent(`
  process.on('message', () => {
    globalThis.gc?.()
    const { user, system } = process.cpuUsage()
    const { rss, heapUsed, external } = process.memoryUsage()
    process.send({ cpuMicroseconds: user + system, rss, used: heapUsed + external })
  })
  process.channel?.unref()`)}`

/** What a process took so far; bytes after a collection of garbage where the bin was started with `--expose-gc`. */
export interface Takings {
  cpuMicroseconds: number
  rss: number
  /** On and off the heap. */
  used: number
}

/** What a ready line tells. */
export interface BuiltServer {
  server: string
  url: string
  serviceUrl: string
}

/** The bin as it is built. */
export interface BuiltBin {
  servers: readonly BuiltServer[]
  takings(): Promise<Takings>
  stop(): Promise<void>
}

/** Starts a command of the bin, and resolves when all its servers are ready. */
export async function startBin(
  command: 'relay' | 'all',
  env: Record<string, string>,
  execArgv: readonly string[] = []
): Promise<BuiltBin> {
  const child = fork(cli, [command], {
    execArgv: [...execArgv, '--import', tell],
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
  return {
    servers,
    async takings() {
      const answer = once(child, 'message')
      child.send('tell')
      const [message] = (await answer) as [Takings]
      return message
    },
    async stop() {
      const ended = once(child, 'close')
      child.kill()
      await ended
    }
  }
}
