/**
 * A discrete-event simulation: clients, a balancer, instances of one core with a pool of connections each, the way to the
 * database, and one primary with `cores`; where quotas lie in Redis, that as well. It measures how busy all of them are.
 */
import { exponential, Pool, seededRandom, Station, Timeline, type Job } from './queueing.js'

/** A kind of request: its work alternates between the instance and what it asks. */
export interface RequestKind {
  perSecond: number
  /** Seconds of CPU of the instance. */
  nodeSeconds: number
  /** Where each of its round trips goes, and the mean seconds of CPU that are needed there. */
  trips: readonly { to: 'database' | 'redis'; seconds: number }[]
}

export interface SimulationOptions {
  kinds: readonly RequestKind[]
  seconds: number
  warmUpSeconds?: number
  seed?: number
  instances: number
  poolSize: number
  /** Verbs of an instance that may wait for a connection. Default 200, as in the library. */
  maxWaiting?: number
  /** Seconds after which a verb is given up, waiting included. Default 4, as in the library. */
  deadlineSeconds?: number
  /** Seconds of a round trip, without the service. */
  tripSeconds: number
  databaseCores: number
  redisCores?: number
  /** What work takes besides where nothing is running: at an instance, and at the primary. Default 0. */
  wakeSeconds?: { node: number; database: number }
  /** Draws how long a service with this mean takes. Default: exponential. */
  draw?: (meanSeconds: number, random: () => number) => number
  /** The primary answers nothing for this time. */
  failover?: { atSeconds: number; seconds: number }
  /** Refused clients come again, this often, after half to one and a half of this time. */
  retry?: { times: number; afterSeconds: number }
}

export interface SimulationResult {
  /** Share of its one core that an instance is busy, the mean of all. */
  instanceUtilisation: number
  /** Cores of the primary that are busy. */
  databaseCores: number
  redisCores: number
  /** Seconds in the queue of the primary. */
  databaseWaitMean: number
  instanceWaitMean: number
  /** Seconds from the request to the answer. */
  latencyP50: number
  latencyP99: number
  served: number
  /** Answers 503. A client that comes again is counted each time. */
  refused: number
}

/** Runs it. The same options give the same result. */
export function simulate(options: SimulationOptions): SimulationResult {
  const { kinds, seconds, warmUpSeconds = 0, tripSeconds, deadlineSeconds = 4, retry } = options
  const random = seededRandom(options.seed ?? 1)
  const draw = options.draw ?? exponential
  const timeline = new Timeline()
  const instances = Array.from({ length: options.instances }, () => ({
    cpu: new Station(timeline, 1, options.wakeSeconds?.node),
    pool: new Pool(options.poolSize, options.maxWaiting ?? 200)
  }))
  const stations = {
    database: new Station(timeline, options.databaseCores, options.wakeSeconds?.database),
    redis: new Station(timeline, options.redisCores ?? 1)
  }
  const latencies: number[] = []
  let [served, refused, arrived] = [0, 0, 0]
  let isCounting = false

  const request = (kind: RequestKind, attempt: number): void => {
    const { cpu, pool } = instances[arrived++ % instances.length]!
    const since = timeline.nowSeconds
    const slice = kind.nodeSeconds / (kind.trips.length + 1)
    const refuse = (): void => {
      if (isCounting) refused += 1
      if (retry === undefined || attempt >= retry.times) return
      timeline.after(retry.afterSeconds * (0.5 + random()), () => {
        request(kind, attempt + 1)
      })
    }
    const work = (step: number): void => {
      cpu.serve({ isCancelled: false }, draw(slice, random), () => {
        const trip = kind.trips[step]
        if (trip === undefined) {
          if (!isCounting) return
          served += 1
          latencies.push(timeline.nowSeconds - since)
        } else {
          ask(trip, () => {
            work(step + 1)
          })
        }
      })
    }
    const ask = ({ to, seconds: mean }: RequestKind['trips'][number], done: () => void): void => {
      const job: Job & { isDone: boolean; hasConnection: boolean } = {
        isCancelled: false,
        isDone: false,
        hasConnection: false
      }
      const needsConnection = to === 'database'
      const send = (): void => {
        job.hasConnection = needsConnection
        timeline.after(tripSeconds / 2, () => {
          stations[to].serve(job, draw(mean, random), () => {
            timeline.after(tripSeconds / 2, () => {
              if (job.isCancelled) return
              job.isDone = true
              if (needsConnection) pool.release()
              done()
            })
          })
        })
      }
      if (needsConnection && !pool.acquire(job, send)) {
        refuse()
        return
      }
      if (!needsConnection) send()
      if (deadlineSeconds === Infinity) return
      timeline.after(deadlineSeconds, () => {
        if (job.isDone) return
        job.isCancelled = true
        // What did not answer in time is closed, and another connection opened.
        if (job.hasConnection) pool.release()
        refuse()
      })
    }
    work(0)
  }

  for (const kind of kinds) {
    if (kind.perSecond <= 0) continue
    const arrive = (): void => {
      if (timeline.nowSeconds >= warmUpSeconds + seconds) return
      request(kind, 0)
      timeline.after(exponential(1 / kind.perSecond, random), arrive)
    }
    timeline.after(exponential(1 / kind.perSecond, random), arrive)
  }
  const all = [...Object.values(stations), ...instances.map(({ cpu }) => cpu)]
  timeline.after(warmUpSeconds, () => {
    isCounting = true
    for (const station of all) station.reset()
  })
  if (options.failover !== undefined) {
    const { atSeconds, seconds: pauseSeconds } = options.failover
    timeline.after(warmUpSeconds + atSeconds, () => {
      stations.database.pause(true)
    })
    timeline.after(warmUpSeconds + atSeconds + pauseSeconds, () => {
      stations.database.pause(false)
    })
  }
  timeline.run()

  const waits = instances.flatMap(({ cpu }) => cpu.waits)
  latencies.sort((a, b) => a - b)
  return {
    instanceUtilisation: meanOf(instances.map(({ cpu }) => cpu.busySeconds / seconds)),
    databaseCores: stations.database.busySeconds / seconds,
    redisCores: stations.redis.busySeconds / seconds,
    databaseWaitMean: meanOf(stations.database.waits),
    instanceWaitMean: meanOf(waits),
    latencyP50: latencies[Math.floor(latencies.length * 0.5)] ?? 0,
    latencyP99: latencies[Math.floor(latencies.length * 0.99)] ?? 0,
    served,
    refused
  }
}

function meanOf(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length
}

/** Draws times whose quantiles over their mean are given. */
export function measuredDraw(shape: readonly number[]): NonNullable<SimulationOptions['draw']> {
  return (meanSeconds, random) => meanSeconds * shape[Math.floor(random() * shape.length)]!
}
