import { fork } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { ConnectionPool } from './http-client.js'
import { quantile } from './median.js'
import { measureByTurns, openLoad, type Situation } from './open-load.js'
import { reportTimes } from './report-figure.js'
import type { BenchServer } from './variants.js'

const ROUNDS = 3
const GETS_PER_SECOND = 200
const LOGINS_PER_SECOND = 100
/** Of each situation, in all rounds together. */
const GETS = 2_400
const MOST_RATIO = 1.2
let firstWallet = 10_000_000

/**
 * P4: what a bare GET waits more beside 100 logins a second than beside as many pairs of bare POST requests, both at a
 * fixed rate. The control is the bare server alone over itself beside its pairs: what the load of any server does.
 */
export async function compareLatency(label: string, ours: BenchServer, bare: BenchServer): Promise<void> {
  const { milliseconds, load } = await measureByTurns(ROUNDS, {
    quiet: { measure: () => gets(bare) },
    bare: { begin: () => loginLoad(bare, '/bare-challenge', '/bare-tokens'), measure: () => gets(bare) },
    ours: { begin: () => loginLoad(ours, '/request-auth', '/auth'), measure: () => gets(ours) }
  } satisfies Record<string, Situation>)
  const p50 = (name: keyof typeof milliseconds): number => quantile(milliseconds[name], 0.5)
  const [ratio, control] = [p50('ours') / p50('bare'), p50('bare') / p50('quiet')]
  const times = (['quiet', 'bare', 'ours'] as const).map(
    (name) => `${name} ${p50(name).toFixed(2)} (p99 ${quantile(milliseconds[name], 0.99).toFixed(1)})`
  )
  reportTimes(
    'P4',
    `p50 of ${GETS} bare GET beside ${LOGINS_PER_SECOND} logins/s over the same beside bare routes, ${label}: ` +
      `${ratio.toFixed(2)} × (goal <= ${MOST_RATIO}; control ${control.toFixed(2)} ×; ${times.join(', ')} ms)`,
    { isMet: ratio <= MOST_RATIO, isControlMet: control <= MOST_RATIO, load }
  )
}

async function gets(server: BenchServer): Promise<number[]> {
  const pool = new ConnectionPool(server.port)
  const milliseconds = await openLoad(GETS_PER_SECOND, GETS / ROUNDS, () => pool.use((one) => one.get('/bare')))
  pool.close()
  return milliseconds
}

async function loginLoad(server: BenchServer, challengePath: string, tokensPath: string): Promise<() => void> {
  const file = fileURLToPath(new URL('bench-load.ts', import.meta.url))
  firstWallet += 1_000_000
  const args = [server.port, challengePath, tokensPath, firstWallet, LOGINS_PER_SECOND].map(String)
  const child = fork(file, args, { execArgv: ['--import', 'tsx'] })
  // Its start is not what is measured.
  await pause(1_500)
  return () => child.kill()
}
