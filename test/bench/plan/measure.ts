/** `npm run plan -- measure`: what requests take, on a real PostgreSQL, as unit-costs.json. About two minutes. */
import { postgresStore } from '../../../src/stores/postgres/index.js'
import { hashOf, rotationOf, sessionOf } from '../../../src/testing/store-case.js'
import { mintTokens } from '../mint-tokens.js'
import { actions, OfferedLoad, type Action } from './offered-load.js'
import { startDatabase, startSystem, type RealDatabase, type RealSystem, type Usage } from './real-system.js'
import { writeResult, type RequestCost, type UnitCosts } from './unit-costs.js'

/** Low enough for most pieces of work to find their process idle. */
const LOW_PER_SECOND = 70
const CLIENTS = 16
const SECONDS = 7
const TRIP_MILLISECONDS = 5
/** Sessions of the load: more than requests that are sent at once. */
const SESSIONS = 200

/** Costs of what the load does, and of guarded requests whose tokens are new. */
type Costs = Record<Action | 'firstSeen', RequestCost>

/** Measures everything, prints it, and writes the file. */
export async function measure(): Promise<void> {
  const database = await startDatabase()
  const system = await startSystem(database, { instances: 1, poolSize: 4, tripMilliseconds: 0 })
  const load = new OfferedLoad(system.ports)
  await warmUp(load, 6)
  system.setTrip(TRIP_MILLISECONDS)
  const idle = await idleOf(system)
  const low = await costsOf(system, idle, (action, tokens) =>
    load.offer({ [action]: LOW_PER_SECOND }, SECONDS, tokens).then((done) => done[action])
  )
  system.setTrip(0)
  const high = await costsOf(system, idle, async (action, tokens) => {
    const begin = performance.now()
    const perSecond = await load.saturate(action, CLIENTS, SECONDS, tokens)
    return (perSecond * (performance.now() - begin)) / 1000
  })
  load.close()
  await system.stop()
  const costs: UnitCosts = {
    measuredAt: new Date().toISOString(),
    machine: database.machine,
    requests: {
      challenge: high.challenge,
      login: minus(high.logIn, high.challenge),
      refresh: high.refresh,
      guarded: high.guarded
    },
    firstSeenMicroseconds: (firstSeenOf(low) + firstSeenOf(high)) / 2,
    wake: wakeOf(low, high),
    idle,
    ...(await storeFigures(database))
  }
  writeResult('unit-costs', costs)
  console.table(costs.requests)
  console.log('at a low rate')
  console.table(low)
  console.log(costs)
  await database.remove()
}

/** @param run - does an action, and answers how often it was done */
async function costsOf(
  system: RealSystem,
  idle: UnitCosts['idle'],
  run: (action: Action, tokens?: string[]) => Promise<number>
): Promise<Costs> {
  const cost = (action: Action, tokens?: string[]) => costOf(system, idle, () => run(action, tokens))
  return {
    challenge: await cost('challenge'),
    logIn: await cost('logIn'),
    refresh: await cost('refresh'),
    guarded: await cost('guarded'),
    firstSeen: await cost('guarded', mintTokens(20_000))
  }
}

function firstSeenOf({ firstSeen, guarded }: Costs): number {
  return Math.max(0, firstSeen.nodeMicroseconds - guarded.nodeMicroseconds)
}

function minus(one: RequestCost, other: RequestCost): RequestCost {
  return {
    nodeMicroseconds: one.nodeMicroseconds - other.nodeMicroseconds,
    postgresMicroseconds: one.postgresMicroseconds - other.postgresMicroseconds,
    walBytes: one.walBytes - other.walBytes,
    trips: one.trips - other.trips
  }
}

/** What is more at a low rate, for each piece of work: a request has one more at the instance than it has trips. */
function wakeOf(low: Costs, high: Costs): UnitCosts['wake'] {
  let [node, postgres, trips] = [0, 0, 0]
  for (const action of actions) {
    node += low[action].nodeMicroseconds - high[action].nodeMicroseconds
    postgres += low[action].postgresMicroseconds - high[action].postgresMicroseconds
    trips += high[action].trips
  }
  // A login is two requests.
  const pieces = trips + actions.length + 1
  return { nodeMicroseconds: Math.max(0, node / pieces), postgresMicroseconds: Math.max(0, postgres / trips) }
}

/** Runs everything until it is compiled and its connections are open. */
export async function warmUp(load: OfferedLoad, seconds: number): Promise<void> {
  await load.prepare(SESSIONS)
  for (const action of actions) await load.saturate(action, 16, seconds)
}

/** Shares of a core that are busy while nothing is asked. */
async function idleOf(system: RealSystem): Promise<UnitCosts['idle']> {
  const used = await usageDuring(system, () => new Promise((resolve) => setTimeout(resolve, SECONDS * 1000)))
  const seconds = used.atSeconds * 1e6
  return { node: used.nodeMicroseconds[0]! / seconds, postgres: used.postgresMicroseconds / seconds }
}

async function costOf(system: RealSystem, idle: UnitCosts['idle'], run: () => Promise<number>): Promise<RequestCost> {
  let count = 0
  const used = await usageDuring(system, async () => {
    count = await run()
  })
  const microseconds = used.atSeconds * 1e6
  return {
    nodeMicroseconds: (used.nodeMicroseconds[0]! - idle.node * microseconds) / count,
    postgresMicroseconds: (used.postgresMicroseconds - idle.postgres * microseconds) / count,
    walBytes: Math.round(used.walBytes / count),
    trips: Math.round(used.statements / count)
  }
}

/** What was used while something ran. */
export async function usageDuring(system: RealSystem, run: () => Promise<unknown>): Promise<Usage> {
  const before = await system.usage()
  await run()
  const after = await system.usage()
  return {
    atSeconds: after.atSeconds - before.atSeconds,
    nodeMicroseconds: after.nodeMicroseconds.map((used, index) => used - before.nodeMicroseconds[index]!),
    postgresMicroseconds: after.postgresMicroseconds - before.postgresMicroseconds,
    walBytes: after.walBytes - before.walBytes,
    statements: after.statements - before.statements
  }
}

const SESSIONS_ON_DISK = 500
const ROTATIONS = 20

/** Sessions on disk after 20 refreshes each, and how long single statements take beside their mean. */
async function storeFigures(database: RealDatabase): Promise<Pick<UnitCosts, 'bytesPerSession' | 'serviceShape'>> {
  await database.ask('TRUNCATE did_auth_sessions')
  const store = postgresStore(database.engine.url())
  const names = Array.from({ length: SESSIONS_ON_DISK }, (_, index) => `user ${index}`)
  const milliseconds: number[] = []
  // In the order of time, as users refresh: each once, then each again.
  for (let token = 0; token <= ROTATIONS; token += 1) {
    const work = names.values()
    const run = async (): Promise<void> => {
      for (const name of work) {
        const begin = performance.now()
        if (token === 0) await store.createSession(sessionOf(name, { did: name, refreshTokenHash: hashOf(name, 0) }))
        else await store.rotateRefreshToken(rotationOf(name, token - 1, token))
        // The last round is of one caller, so that no statement waits for another.
        if (token === ROTATIONS) milliseconds.push(performance.now() - begin)
      }
    }
    await Promise.all(Array.from({ length: token === ROTATIONS ? 1 : 8 }, run))
  }
  await store.close()
  const { bytes } = await database.ask(`SELECT pg_total_relation_size('did_auth_sessions') AS bytes`)
  milliseconds.sort((a, b) => a - b)
  const quantiles = Array.from(
    { length: 20 },
    (_, i) => milliseconds[Math.floor(((i + 0.5) / 20) * milliseconds.length)]!
  )
  const mean = quantiles.reduce((sum, value) => sum + value, 0) / quantiles.length
  return {
    bytesPerSession: Math.round(Number(bytes) / SESSIONS_ON_DISK),
    serviceShape: quantiles.map((value) => Number((value / mean).toFixed(3)))
  }
}
