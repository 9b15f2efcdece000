import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { Connection } from './http-client.js'
import { median } from './median.js'
import type { BenchServer } from './variants.js'

const PROBES = 1_500
const ROUNDS = 3
let firstWallet = 10_000_000

/** p50 in milliseconds of a bare GET while 16 clients log in, or do the same against bare routes. */
async function probe(server: BenchServer, challengePath: string, tokensPath: string): Promise<number> {
  const file = fileURLToPath(new URL('bench-load.ts', import.meta.url))
  firstWallet += 1_000_000
  const args = [String(server.port), challengePath, tokensPath, String(firstWallet)]
  const load = fork(file, args, { execArgv: ['--import', 'tsx'] })
  try {
    const connection = await Connection.open(server.port)
    const latencies: number[] = []
    // The load needs a second to start; its start is not what is measured.
    const startedAt = performance.now()
    while (latencies.length < PROBES) {
      const sentAt = performance.now()
      await connection.get('/bare')
      if (sentAt - startedAt > 1_500) latencies.push(performance.now() - sentAt)
    }
    connection.close()
    return median(latencies)
  } finally {
    load.kill()
  }
}

/** P4: how much slower everybody else gets while people log in, beside bare Express under the same number of clients. */
export async function compareLatency(label: string, ours: BenchServer, bare: BenchServer): Promise<void> {
  const [oursMilliseconds, bareMilliseconds]: [number[], number[]] = [[], []]
  for (let round = 0; round < ROUNDS; round++) {
    bareMilliseconds.push(await probe(bare, '/bare-challenge', '/bare-tokens'))
    oursMilliseconds.push(await probe(ours, '/request-auth', '/auth'))
  }
  const [own, others] = [median(oursMilliseconds), median(bareMilliseconds)]
  const figures = `bare / ours ${others.toFixed(2)} / ${own.toFixed(2)} ms`
  console.log(
    `${`P4 p50 of a bare GET while 16 clients log in, ${label}`.padEnd(58)} ${(own / others).toFixed(2).padStart(5)}  (goal <= 2.2; ${figures})`
  )
}
