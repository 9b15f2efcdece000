/**
 * S4: what 1, 2 and 4 instances do in a second, with four connections each, while the way to the database and not the CPU
 * is the limit. The Universal Scalability Law is fitted to it. One line for each kind of request; one that misses its goal
 * sets the exit code.
 *
 * Four minutes: `npm run figures -- instances [milliseconds of a round trip]`
 */
import { cpus } from 'node:os'
import { actions, InstancesLoad } from './instances-load.js'
import { startDatabase, startSystem, type RealSystem, type Usage } from './real-system.js'
import { reportFigure } from './report-figure.js'
import { fitScalability } from './usl.js'

/** Long enough for two cores: with 5 ms, four instances would do more requests than those have time for. */
const TRIP_MILLISECONDS = Number(process.argv[2] ?? 50)
const SECONDS = 15
const POOL_SIZE = 4
const INSTANCES = [1, 2, 4]
/** Sessions of the load: more than requests that are sent at once. */
const SESSIONS = 200
/** Of the throughput of one instance, times their number. */
const LEAST_SHARE = 0.9
const MOST_SIGMA = 0.01

/** What was used while something ran. */
async function usageDuring(system: RealSystem, run: () => Promise<unknown>): Promise<Usage> {
  const before = await system.usage()
  await run()
  const after = await system.usage()
  return {
    atSeconds: after.atSeconds - before.atSeconds,
    nodeMicroseconds: after.nodeMicroseconds.map((used, index) => used - before.nodeMicroseconds[index]!),
    postgresMicroseconds: after.postgresMicroseconds - before.postgresMicroseconds
  }
}

const database = await startDatabase()
const throughputs = new Map(actions.map((action) => [action, new Map<number, number>()]))
const cores = new Map<string, number>()
for (const instances of INSTANCES) {
  const system = await startSystem(database, { instances, poolSize: POOL_SIZE, tripMilliseconds: 0 })
  const load = new InstancesLoad(system.ports)
  // Until everything is compiled and all connections are open.
  await load.prepare(SESSIONS)
  for (const action of actions) await load.saturate(action, 16, 1 + instances)
  system.setTrip(TRIP_MILLISECONDS)
  for (const action of actions) {
    let perSecond = 0
    const used = await usageDuring(system, async () => {
      perSecond = await load.saturate(action, 2 * POOL_SIZE * instances, SECONDS)
    })
    throughputs.get(action)!.set(instances, perSecond)
    const microseconds = used.nodeMicroseconds.reduce((sum, one) => sum + one, used.postgresMicroseconds)
    cores.set(`${action} ${instances}`, microseconds / used.atSeconds / 1e6)
  }
  load.close()
  await system.stop()
}
await database.remove()

for (const [action, measured] of throughputs) {
  const one = measured.get(1)!
  const { sigma, kappa } = fitScalability(measured)
  const shares = [...measured].map(([instances, perSecond]) => perSecond / (instances * one))
  const isMet = Math.min(...shares) >= LEAST_SHARE && sigma <= MOST_SIGMA
  const each = [...measured].map(([instances, perSecond], index) => {
    const busy = cores.get(`${action} ${instances}`)!.toFixed(2)
    return `${instances}: ${perSecond.toFixed(0)}/s (${shares[index]!.toFixed(2)} of linear, ${busy} of ${cpus().length} cores busy)`
  })
  const law = `contention σ ${sigma.toFixed(3)} (goal ${MOST_SIGMA}), coherency κ ${kappa.toFixed(4)}`
  reportFigure('S4', `${action}, ${TRIP_MILLISECONDS} ms a trip: ${each.join(', ')}; ${law}`, isMet)
}
