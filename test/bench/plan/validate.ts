/** `npm run plan -- validate`: the simulation beside the real thing, as validation.json. About four minutes. */
import { requestKinds, wakeSecondsOf } from './simulated-cell.js'
import { measuredDraw, simulate } from './simulation.js'
import { usageDuring, warmUp } from './measure.js'
import { OfferedLoad, type Action } from './offered-load.js'
import { startDatabase, startSystem, type RealDatabase } from './real-system.js'
import { MOST_ERROR, readUnitCosts, writeResult, type UnitCosts, type ValidationRun } from './unit-costs.js'
import { firstSeenShare } from './workload.js'

const POOL_SIZE = 4
const TRIP_MILLISECONDS = 5
const SECONDS = 8
const INSTANCES = [1, 2, 4]
/** Requests a second of each instance. */
const PER_INSTANCE = [40, 70, 100]
/** More logins than users make, so that all kinds of request count. */
const MIX: Readonly<Record<Action, number>> = { challenge: 0.05, logIn: 0.05, refresh: 0.2, guarded: 0.7 }

/** Runs and simulates all, prints the errors, and writes the file. @returns whether all are within 25 % */
export async function validate(): Promise<boolean> {
  const costs = readUnitCosts()
  const database = await startDatabase()
  const runs: ValidationRun[] = []
  for (const instances of INSTANCES) runs.push(...(await runsOf(database, costs, instances)))
  await database.remove()
  const errors = runs.flatMap(({ node, postgres }) => [node, postgres].map(errorOf))
  const largestError = Math.max(...errors.map(Math.abs))
  writeResult('validation', {
    costsMeasuredAt: costs.measuredAt,
    validatedAt: new Date().toISOString(),
    machine: database.machine,
    largestError,
    runs
  })
  console.log(`largest error ${percent(largestError)}: ${largestError <= MOST_ERROR ? 'within' : 'NOT within'} ± 25 %`)
  return largestError <= MOST_ERROR
}

async function runsOf(database: RealDatabase, costs: UnitCosts, instances: number): Promise<ValidationRun[]> {
  const system = await startSystem(database, { instances, poolSize: POOL_SIZE, tripMilliseconds: 0 })
  const load = new OfferedLoad(system.ports, instances)
  await warmUp(load, 4 + 2 * instances)
  system.setTrip(TRIP_MILLISECONDS)
  const runs: ValidationRun[] = []
  for (const asked of PER_INSTANCE.map((rate) => rate * instances)) {
    const rates = { challenge: 0, logIn: 0, refresh: 0, guarded: 0 }
    for (const action of Object.keys(MIX) as Action[]) rates[action] = asked * MIX[action]
    let done = rates
    const used = await usageDuring(system, async () => (done = await load.offer(rates, SECONDS)))
    const seconds = used.atSeconds
    // What was done: on a busy machine less than was asked.
    const did = {
      challenge: (done.challenge + done.logIn) / seconds,
      login: done.logIn / seconds,
      refresh: done.refresh / seconds,
      guarded: done.guarded / seconds
    }
    const predicted = simulate({
      kinds: requestKinds(did, costs, firstSeenShare(did, instances)),
      seconds: 60,
      warmUpSeconds: 5,
      instances,
      poolSize: POOL_SIZE,
      tripSeconds: TRIP_MILLISECONDS / 1000,
      databaseCores: 2,
      wakeSeconds: wakeSecondsOf(costs),
      draw: measuredDraw(costs.serviceShape)
    })
    const node = used.nodeMicroseconds.reduce((sum, one) => sum + one, 0) / instances
    const run = {
      instances,
      perSecond: did.guarded + did.refresh + did.challenge + did.login,
      node: { measured: node / seconds / 1e6, predicted: predicted.instanceUtilisation + costs.idle.node },
      postgres: {
        measured: used.postgresMicroseconds / seconds / 1e6,
        predicted: predicted.databaseCores + costs.idle.postgres
      }
    }
    print(run)
    runs.push(run)
  }
  if (load.refused > 0) console.log(`${load.refused} requests refused: this machine is too busy`)
  load.close()
  await system.stop()
  await database.ask('TRUNCATE did_auth_sessions')
  return runs
}

function print({ instances, perSecond, node, postgres }: ValidationRun): void {
  const beside = (what: ValidationRun['node']): string =>
    `${percent(what.measured)} measured, ${percent(what.predicted)} predicted, error ${percent(errorOf(what))}`
  const setting = `${instances} instance${instances === 1 ? ' ' : 's'}, ${perSecond.toFixed(0).padStart(3)}/s`
  console.log(`${setting}  instance ${beside(node)};  PostgreSQL ${beside(postgres)}`)
}

function errorOf({ measured, predicted }: ValidationRun['node']): number {
  return predicted / measured - 1
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`
}
