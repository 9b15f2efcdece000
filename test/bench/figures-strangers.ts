/**
 * F19: each kind of stranger at 100 requests a second beside the logins of others, and as a control 100 harmless 404s a
 * second. One line for each kind; one that misses its goal sets the exit code.
 *
 * Eleven minutes: `npm run figures -- strangers [logins of each situation]`
 */
import { fork, type ChildProcess } from 'node:child_process'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { benchWallet } from './bench-wallet.js'
import { ConnectionPool } from './http-client.js'
import { quantile } from './median.js'
import { measureByTurns, openLoad, type Situation } from './open-load.js'
import { reportFigure, reportTimes } from './report-figure.js'

const LOGINS = Number(process.argv[2] ?? 1_020)
const ROUNDS = 3
const LOGINS_PER_SECOND = 30
const STRANGERS_PER_SECOND = 100
const MOST_RATIO = 2
/** What the session, the challenge use and the remembered token of a login take. */
const MOST_BYTES_A_LOGIN = 1_024
/** What strangers may take in bounded caches: documents of issuers with 100 keys are most of it. */
const MOST_MEBIBYTES_BESIDE = 25
const KINDS = ['proofs', 'hugeIssuers', 'silentIssuers', 'issuersOf100Keys', 'pages', 'resets'] as const

const visitor = benchWallet(1)
let walletNumber = 1_000
let lockedOut = 0
const reasons = new Map<string, number>()

function start(script: string, args: string[], flags: string[] = []): ChildProcess {
  const file = fileURLToPath(new URL(script, import.meta.url))
  return fork(file, args, { execArgv: ['--import', 'tsx', ...flags] })
}

function answerOf<T>(child: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    child.once('message', (message) => {
      resolve(message as T)
    })
    child.once('exit', () => {
      reject(new Error('the server ended'))
    })
  })
}

async function heapMebibytes(server: ChildProcess): Promise<number> {
  const answer = answerOf<{ heapUsed: number }>(server)
  server.send('memory')
  return (await answer).heapUsed / 2 ** 20
}

/** Logs a user in from a network of the user's own. */
async function logIn(pool: ConnectionPool, number: number): Promise<void> {
  // Every second somebody who has the foreign page open.
  const isVisitor = number % LOGINS_PER_SECOND === 0
  const wallet = isVisitor ? visitor : benchWallet(walletNumber++)
  const address = isVisitor
    ? '10.255.0.1'
    : `10.${String(number >> 16)}.${String((number >> 8) & 255)}.${String(number & 255)}`
  const headers = `X-Forwarded-For: ${address}\r\n`
  const outcome = await pool.use(async (connection) => {
    const asked = await connection.post('/request-auth', { did: wallet.did }, headers)
    if (asked.status !== 200) return `${asked.status} ${asked.body}`
    const { challenge } = JSON.parse(asked.body) as { challenge: string }
    const sig = wallet.personalSign(`Login to bench.example\nVerification code: ${challenge}`)
    const answer = await connection.post('/auth', { did: wallet.did, sig }, headers)
    return answer.status === 200 || answer.body.endsWith(': expired') ? '' : `${answer.status} ${answer.body}`
  })
  if (outcome === '') return
  lockedOut += 1
  reasons.set(outcome, (reasons.get(outcome) ?? 0) + 1)
}

const server = start('strangers-server.ts', [], ['--expose-gc'])
const { port } = await answerOf<{ port: number }>(server)

async function logins(count: number): Promise<number[]> {
  const pool = new ConnectionPool(port)
  const milliseconds = await openLoad(LOGINS_PER_SECOND, count, (index) => logIn(pool, index))
  pool.close()
  return milliseconds
}

/** Logins beside strangers of a kind. */
const beside = (kind: string): Situation => ({
  async begin() {
    const strangers = start('strangers-load.ts', [String(port), kind, String(STRANGERS_PER_SECOND)])
    // Its start is not what is measured.
    await pause(1_500)
    return () => strangers.kill()
  },
  measure: () => logins(LOGINS / ROUNDS)
})

await logins(Math.min(LOGINS, 100))
const heapBefore = await heapMebibytes(server)
for (const kind of KINDS) {
  const { milliseconds, load } = await measureByTurns(ROUNDS, {
    quiet: { measure: () => logins(LOGINS / ROUNDS) },
    control: beside('notFound'),
    strangers: beside(kind)
  })
  const p99 = (name: keyof typeof milliseconds): number => quantile(milliseconds[name], 0.99)
  const [ratio, control] = [p99('strangers') / p99('quiet'), p99('control') / p99('quiet')]
  const times = (['quiet', 'control', 'strangers'] as const).map((name) => p99(name).toFixed(1)).join(', ')
  reportTimes(
    'F19',
    `${kind}, ${STRANGERS_PER_SECOND}/s: p99 of ${LOGINS} logins of others ${ratio.toFixed(2)} × quiet ` +
      `(goal ${MOST_RATIO}), beside as many 404s ${control.toFixed(2)} × (${times} ms)`,
    { isMet: ratio <= MOST_RATIO, isControlMet: control <= MOST_RATIO, load }
  )
}
const heapMore = (await heapMebibytes(server)) - heapBefore
const mostMebibytes = MOST_MEBIBYTES_BESIDE + (3 * KINDS.length * LOGINS * MOST_BYTES_A_LOGIN) / 2 ** 20
server.disconnect()

const refusals = [...reasons].map(([reason, count]) => ` (${String(count)} × ${reason})`).join('')
reportFigure(
  'F19',
  `${lockedOut} locked out${refusals}; ${heapMore.toFixed(1)} MiB more heap (goal ${mostMebibytes.toFixed(0)})`,
  lockedOut === 0 && heapMore <= mostMebibytes
)
