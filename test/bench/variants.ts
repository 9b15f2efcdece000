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

/** @param env - `DID_AUTH_BENCH_CURVE=wasm` hides the native curve */
export async function startVariant(
  variant: Variant,
  args: string[] = [],
  execArgv: string[] = []
): Promise<BenchServer> {
  const file = fileURLToPath(new URL('bench-server.ts', import.meta.url))
  const child = fork(file, [variant, ...args], { execArgv: ['--import', 'tsx', ...execArgv] })
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
