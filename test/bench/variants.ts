import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

export type Variant = 'bare' | 'did-auth' | 'did-auth-sqlite' | 'siwe'

export const SERVICE_KEY = '77'.repeat(32)
export const SERVICE_URL = 'https://bench.example'

/** A server process of the benchmark. */
export interface BenchServer {
  port: number
  /** CPU time that the process used so far, user and system, in microseconds. */
  cpuMicroseconds(): Promise<number>
  stop(): void
}

export function startVariant(variant: Variant, args: string[] = [], execArgv: string[] = []): Promise<BenchServer> {
  return startChild('bench-server.ts', [variant, ...args], execArgv)
}

/** Starts a file of this folder as a server, which says its port and, when asked, its CPU time. */
export async function startChild(name: string, args: string[], execArgv: string[] = []): Promise<BenchServer> {
  const file = fileURLToPath(new URL(name, import.meta.url))
  const child = fork(file, args, { execArgv: ['--import', 'tsx', ...execArgv] })
  const { port } = (await nextMessage(child)) as { port: number }
  return {
    port,
    async cpuMicroseconds() {
      const answer = nextMessage(child)
      child.send('cpu')
      return ((await answer) as { cpuMicroseconds: number }).cpuMicroseconds
    },
    stop() {
      child.kill()
    }
  }
}

async function nextMessage(child: ChildProcess): Promise<unknown> {
  const [message] = (await once(child, 'message')) as [unknown]
  return message
}
