/**
 * F19: each kind of stranger sends 100 requests per second while users log in. The control sends 100 harmless requests
 * per second, which are answered 404. Prints one line per kind.
 *
 * Eleven minutes: `npm run figures -- strangers [logins of each situation]`
 */
import { measureTimes, applyOpenLoad, computeQuantile, reportFigure, reportTimes, type Situation } from './harness.js'
import { ConnectionPool, tryLogin } from './http-client.js'
import { startLoad, startServer } from './servers.js'
import { createBenchWallet, createFreshWallet } from './wallets.js'

const LOGINS = Number(process.argv.slice(2).find((word) => /^\d+$/.test(word)) ?? 1_020)
const ROUNDS = 3
const LOGINS_PER_SECOND = 30
const STRANGERS_PER_SECOND = 100
const MOST_RATIO = 2
/** Maximum bytes for the session, the challenge use and the cached token of a login. */
const MOST_BYTES_A_LOGIN = 1_024
/** Maximum MiB that strangers may use in bounded caches, mostly documents of issuers with 100 keys. */
const MOST_CACHED_MEBIBYTES = 25
const KINDS = ['proofs', 'hugeIssuers', 'silentIssuers', 'issuersOf100Keys', 'pages', 'resets']

const visitor = createBenchWallet(1)
const reasons = new Map<string, number>()
const server = await startServer('attacked', [], ['--expose-gc'])

/** Logs in a user from a separate network. Once per second, this is the user who has opened the foreign page. */
async function logIn(pool: ConnectionPool, number: number): Promise<void> {
  const isVisitor = number % LOGINS_PER_SECOND === 0
  const address = isVisitor ? '10.255.0.1' : [10, number >> 16, (number >> 8) & 255, number & 255].join('.')
  const wallet = isVisitor ? visitor : createFreshWallet()
  const headers = `X-Forwarded-For: ${address}\r\n`
  const { status, body } = await pool.use((connection) => tryLogin(connection, wallet, { headers }))
  if (status !== 200) reasons.set(`${status} ${body}`, (reasons.get(`${status} ${body}`) ?? 0) + 1)
}

async function logins(count: number): Promise<number[]> {
  const pool = new ConnectionPool(server.port)
  const milliseconds = await applyOpenLoad(LOGINS_PER_SECOND, count, (index) => logIn(pool, index))
  pool.close()
  return milliseconds
}

const quiet: Situation = { measure: () => logins(LOGINS / ROUNDS) }
const createSituation = (kind: string): Situation => ({
  ...quiet,
  begin: () => startLoad(server.port, kind, STRANGERS_PER_SECOND)
})

await logins(Math.min(LOGINS, 100))
const { used: usedBefore } = await server.usage()
for (const kind of KINDS) {
  const situations = { quiet, control: createSituation('notFound'), strangers: createSituation(kind) }
  const { milliseconds, load } = await measureTimes(ROUNDS, situations)
  const p99 = (name: keyof typeof milliseconds): number => computeQuantile(milliseconds[name], 0.99)
  const [ratio, control] = [p99('strangers') / p99('quiet'), p99('control') / p99('quiet')]
  const times = (['quiet', 'control', 'strangers'] as const).map((name) => p99(name).toFixed(1)).join(', ')
  reportTimes(
    'F19',
    `${kind}, ${STRANGERS_PER_SECOND}/s: p99 of ${LOGINS} logins of others ${ratio.toFixed(2)} × quiet ` +
      `(goal ${MOST_RATIO}), next to as many 404s ${control.toFixed(2)} × (${times} ms)`,
    { isMet: ratio <= MOST_RATIO, isControlMet: control <= MOST_RATIO, load }
  )
}
const mebibytesMore = ((await server.usage()).used - usedBefore) / 2 ** 20
const mostMebibytes = MOST_CACHED_MEBIBYTES + (3 * KINDS.length * LOGINS * MOST_BYTES_A_LOGIN) / 2 ** 20
await server.stop()

const refusals = [...reasons].map(([reason, count]) => ` (${String(count)} × ${reason})`).join('')
reportFigure(
  'F19',
  `${reasons.size === 0 ? 'none' : 'some'} locked out${refusals}; ${mebibytesMore.toFixed(1)} MiB more (goal ${mostMebibytes.toFixed(0)})`,
  reasons.size === 0 && mebibytesMore <= mostMebibytes
)
