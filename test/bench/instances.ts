/**
 * S4: throughput of 1, 2 and 4 instances with four connections each, while the network to the database and not the CPU
 * is the limit. Fits the Universal Scalability Law to the results.
 *
 * Four minutes: `npm run figures -- instances [milliseconds of a round trip] [seconds of a measurement]`
 */
import { readdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import pg from 'pg'
import { startPostgres } from '../support/engines/postgres-server.js'
import { tcpProxy } from '../support/faults/tcp-proxy.js'
import { runInParallel, measureRate, reportFigure } from './harness.js'
import { ConnectionPool, tryLogin, type Answer, type Tokens } from './http-client.js'
import { startServer } from './servers.js'
import { fitScalability } from './usl.js'
import { createFreshWallet } from './wallets.js'

/** Round trip of 50 ms, long enough for two cores: with 5 ms, four instances would need more CPU time. */
const [TRIP_MILLISECONDS = 50, SECONDS = 15] = process.argv
  .slice(2)
  .filter((word) => /^\d+$/.test(word))
  .map(Number)
const POOL_SIZE = 4
const INSTANCES = [1, 2, 4]
/** Minimum throughput, as a share of the throughput of one instance times the number of instances. */
const LEAST_SHARE = 0.9
/** Maximum contention σ, the share of serialized work. */
const MOST_SIGMA = 0.01

/** Client that waits for each response. It distributes its requests round-robin, like a load balancer. */
class Client {
  readonly #pools: readonly ConnectionPool[]
  #tokens: Tokens | undefined
  #requests = 0

  constructor(pools: readonly ConnectionPool[]) {
    this.#pools = pools
  }

  /** Logs in a new wallet with a new challenge. */
  async logIn(): Promise<boolean> {
    const post = (path: string, body: object): Promise<Answer> =>
      this.#ask((pool, headers) => pool.use((connection) => connection.post(path, body, headers)))
    return this.#keep(await tryLogin({ post }, createFreshWallet()))
  }

  async refresh(): Promise<boolean> {
    if (this.#tokens === undefined) return this.logIn()
    const { refreshToken } = this.#tokens
    // A refused refresh may have been executed, so a login follows.
    this.#tokens = undefined
    return this.#keep(
      await this.#ask((pool, headers) =>
        pool.use((connection) => connection.post('/refresh-token', { refreshToken }, headers))
      )
    )
  }

  async guarded(): Promise<boolean> {
    if (this.#tokens === undefined) return this.logIn()
    const authorization = `Authorization: DIDAuth ${this.#tokens.accessToken}\r\n`
    return isDone(
      await this.#ask((pool, headers) => pool.use((connection) => connection.get('/guarded', headers + authorization)))
    )
  }

  #keep(answer: Answer): boolean {
    this.#tokens = isDone(answer) ? (JSON.parse(answer.body) as Tokens) : undefined
    return this.#tokens !== undefined
  }

  #ask(send: (pool: ConnectionPool, headers: string) => Promise<Answer>): Promise<Answer> {
    const pool = this.#pools[this.#requests++ % this.#pools.length]!
    const part = (): number => Math.floor(Math.random() * 256)
    return send(pool, `X-Forwarded-For: 10.${part()}.${part()}.${part()}\r\n`)
  }
}

/** Whether the request succeeded; false only if the service is busy, for example while its machine is suspended. */
function isDone({ status, body }: Answer): boolean {
  if (status !== 200 && status !== 503) throw new Error(`expected 200, got ${status}: ${body}`)
  return status === 200
}

const ACTIONS = ['logIn', 'refresh', 'guarded'] as const

// The engine syncs to its disk, as in production.
const engine = await startPostgres({ fsync: 'on' })
const admin = new pg.Client({ connectionString: engine.url() })
await admin.connect()
const { rows } = await admin.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
const ownPid = rows[0]!.pid
/** Returns the CPU time of all PostgreSQL processes, including ended ones, except that of the `admin` connection. */
const postgresMicroseconds = (): number => {
  const { parent } = readStat(ownPid)
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger)
  const livingPids = pids.filter((pid) => pid !== ownPid && (pid === parent || readStat(pid).parent === parent))
  return livingPids.reduce((sum, pid) => sum + readCpuMicroseconds(pid), readStat(parent).endedChildrenMicroseconds)
}

const throughputs = new Map(ACTIONS.map((action) => [action, new Map<number, number>()]))
const cores = new Map<string, number>()
for (const instances of INSTANCES) {
  const proxy = await tcpProxy(engine.port)
  const url = new URL(engine.url())
  url.port = String(proxy.port)
  const servers = await Promise.all(
    Array.from({ length: instances }, () => startServer('instance', [url.href, String(POOL_SIZE)]))
  )
  const pools = servers.map(({ port }) => new ConnectionPool(port))
  const clients = Array.from({ length: 2 * POOL_SIZE * instances }, () => new Client(pools))
  // Warm-up: compiles everything and opens all connections.
  await runInParallel(clients.length, 25 * clients.length, (_index, client) => clients[client]!.logIn())
  for (const action of ACTIONS)
    await measureRate(clients.length, 1 + instances, (_, client) => clients[client]![action]())
  // Half of the delay in each direction.
  proxy.delay(TRIP_MILLISECONDS / 2)
  const microseconds = async (): Promise<number> => {
    const usages = await Promise.all(servers.map((server) => server.usage()))
    return usages.reduce((sum, { cpuMicroseconds }) => sum + cpuMicroseconds, postgresMicroseconds())
  }
  for (const action of ACTIONS) {
    const [startedAt, before] = [performance.now(), await microseconds()]
    const perSecond = await measureRate(clients.length, SECONDS, (_, client) => clients[client]![action]())
    throughputs.get(action)!.set(instances, perSecond)
    cores.set(`${action} ${instances}`, ((await microseconds()) - before) / (performance.now() - startedAt) / 1e3)
  }
  for (const pool of pools) pool.close()
  await Promise.all(servers.map((server) => server.stop()))
  await proxy.close()
}
await admin.end()
await engine.remove()

for (const [action, measured] of throughputs) {
  const single = measured.get(1)!
  const { sigma, kappa } = fitScalability(measured)
  const shares = [...measured].map(([instances, perSecond]) => perSecond / (instances * single))
  const each = [...measured].map(([instances, perSecond], index) => {
    const busy = cores.get(`${action} ${instances}`)!.toFixed(2)
    return `${instances}: ${perSecond.toFixed(0)}/s (${shares[index]!.toFixed(2)} of linear, ${busy} of ${cpus().length} cores busy)`
  })
  const law = `contention σ ${sigma.toFixed(3)} (goal ${MOST_SIGMA}), coherency κ ${kappa.toFixed(4)}`
  const isMet = Math.min(...shares) >= LEAST_SHARE && sigma <= MOST_SIGMA
  reportFigure('S4', `${action}, ${TRIP_MILLISECONDS} ms a trip: ${each.join(', ')}; ${law}`, isMet)
}

/** Reads the CPU time in microseconds from the scheduler, because the ticks in `stat` are 10 ms. */
function readCpuMicroseconds(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1000
  } catch {
    return 0
  }
}

/** Returns the parent and the CPU time of the ended children of a process; zeros if it has ended. */
function readStat(pid: number): { parent: number; endedChildrenMicroseconds: number } {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name may contain spaces. The fields after it are state, parent, …
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    return { parent: Number(fields[1]), endedChildrenMicroseconds: (Number(fields[13]) + Number(fields[14])) * 10_000 }
  } catch {
    return { parent: 0, endedChildrenMicroseconds: 0 }
  }
}
