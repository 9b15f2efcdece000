import type { Capacity } from './capacity.js'
import { measuredDraw, simulate, type RequestKind, type SimulationResult } from './simulation.js'
import type { UnitCosts } from './unit-costs.js'
import { requestNames, type RequestName, type Workload } from './workload.js'

/** Requests of a simulation: more give no other numbers, only later. */
const REQUESTS = 200_000
const MOST_SECONDS = 60

/**
 * Requests as the simulation takes them. With quotas in Redis, the trips for quotas go there: the one of a guarded request,
 * of a challenge and of a login.
 */
export function requestKinds(
  rates: Readonly<Record<RequestName, number>>,
  costs: UnitCosts,
  firstSeen: number,
  redisSecondsPerQuota?: number
): RequestKind[] {
  const quotaSeconds = costs.requests.guarded.postgresMicroseconds / 1e6
  return requestNames.map((name) => {
    const { nodeMicroseconds, postgresMicroseconds, trips } = costs.requests[name]
    const more = name === 'guarded' ? firstSeen * costs.firstSeenMicroseconds : 0
    const hasQuota = name !== 'refresh'
    const isQuotaAway = hasQuota && redisSecondsPerQuota !== undefined
    const toDatabase = isQuotaAway ? trips - 1 : trips
    const seconds = Math.max(0, postgresMicroseconds / 1e6 - (isQuotaAway ? quotaSeconds : 0)) / Math.max(1, toDatabase)
    return {
      perSecond: rates[name],
      nodeSeconds: (nodeMicroseconds + more) / 1e6,
      trips: [
        ...(isQuotaAway ? [{ to: 'redis' as const, seconds: redisSecondsPerQuota }] : []),
        ...Array.from({ length: toDatabase }, () => ({ to: 'database' as const, seconds }))
      ]
    }
  })
}

/** As the simulation takes it. */
export function wakeSecondsOf({ wake }: UnitCosts): { node: number; database: number } {
  return { node: wake.nodeMicroseconds / 1e6, database: wake.postgresMicroseconds / 1e6 }
}

/** Simulates one auth cell of a capacity: its primary, and its share of instances, requests and Redis. */
export function simulateCell(capacity: Capacity, costs: UnitCosts, workload: Workload): SimulationResult {
  const cells = capacity.authPrimaries
  const rates = { ...capacity.rates }
  for (const name of requestNames) rates[name] /= cells
  const total = requestNames.reduce((sum, name) => sum + rates[name], 0)
  const failoverSeconds = workload['failover-seconds']
  const seconds = failoverSeconds > 0 ? MOST_SECONDS : Math.min(MOST_SECONDS, REQUESTS / total)
  const { redisPrimaries } = capacity.quotas
  return simulate({
    kinds: requestKinds(
      rates,
      costs,
      capacity.firstSeenShare,
      redisPrimaries > 0 ? workload['redis-charge'] / 1e6 : undefined
    ),
    seconds,
    warmUpSeconds: seconds / 10,
    instances: Math.ceil(capacity.instances / cells),
    poolSize: workload['pool-size'],
    tripSeconds: workload['trip-ms'] / 1000,
    databaseCores: workload['primary-cores'],
    wakeSeconds: wakeSecondsOf(costs),
    redisCores: redisPrimaries / cells,
    draw: measuredDraw(costs.serviceShape),
    ...(failoverSeconds > 0 && { failover: { atSeconds: 10, seconds: failoverSeconds } }),
    ...(workload.retries > 0 && { retry: { times: workload.retries, afterSeconds: 5 } })
  })
}
