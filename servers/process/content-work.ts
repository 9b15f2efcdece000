import type { Clock } from 'express-did-auth'
import { waitAtMost } from 'express-did-auth/server-kit'
import { limitMilliseconds } from '../config/time-limits.js'
import type { ServerAppParts } from '../http/create-app.js'
import { BodyReader } from '../bodies/read-body.js'
import { createContentRepair } from '../ipfs/content-repair.js'
import { PinWorker } from '../ipfs/pin-worker.js'
import { describeError } from '../observability/error-fields.js'
import type { Samples } from '../observability/metrics.js'
import type { Contents } from './start-server.js'

const MINUTE_MILLISECONDS = 60_000
/** Delay before requested work starts, so that further requests join it. */
const SOON_MILLISECONDS = 1_000
/** Maximum random extension of an interval, as a fraction, so that instances do not work at the same time. */
const JITTER = 0.2

/**
 * Starts the background work of a server that stores content. It changes pins as the ledger demands, and deletes
 * unused content about every minute.
 *
 * @param task - name of `collect` in the metrics
 * @param collect - deletes unused content
 * @returns functions for routes. Without an IPFS node, `settlePins` leaves open pins in the ledger
 */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function startContentWork(
  { env, contents, node, spool, log, metrics }: Pick<ServerAppParts, 'env' | 'log' | 'metrics'> & Contents,
  clock: Clock,
  task: 'collector' | 'sweep',
  collect: (signal: AbortSignal) => Promise<void>
) {
  const pins = node && new PinWorker({ ledger: contents, store: contents, node, log, clock })
  pins?.start()
  const server = env.name
  const readOpen = async (): Promise<Samples> => [{ labels: { server }, value: await contents.countOpen() }]
  if (pins) metrics?.watch('did_auth_pins_open', readOpen)
  let success: Samples = []
  metrics?.watch('did_auth_task_success_timestamp_seconds', () => success)
  const collector = repeatWork(
    async (signal) => {
      await collect(signal)
      success = [{ labels: { server, task }, value: clock.nowSeconds() }]
    },
    (error) =>
      log.warn(
        { event: 'sweep-failed', ...describeError(error) },
        'expired or unused data could not be deleted; the next attempt follows in about a minute'
      )
  )
  return {
    bodies: new BodyReader(spool),
    repair: createContentRepair({ store: contents, node, log }),
    settlePins: async (cids: readonly string[]) => pins === undefined || pins.settle(cids),
    collectSoon: collector.soon,
    stop: async () => {
      await Promise.all([collector.stop(), pins?.stop()])
    }
  }
}

/** Functions of the background work that routes use. */
export type ContentWork = ReturnType<typeof startContentWork>

/**
 * Runs work now and about every minute, but never in parallel. Its timers do not keep the process alive.
 *
 * @param work - should stop when its signal aborts
 * @returns `soon` runs the work within a second; if it is running, a second after it ends. `stop` resolves when no
 *   work is running, or after 3 s
 */
export function repeatWork(
  work: (signal: AbortSignal) => Promise<void>,
  onFailure: (error: unknown) => void
): { soon: () => void; stop: () => Promise<void> } {
  const stopping = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let isWorking = false
  /** Number of calls of `soon` since the last run began. */
  let requestCount = 0
  const runIn = (milliseconds: number): void => {
    clearTimeout(timer)
    timer = setTimeout(() => {
      currentRun = run()
    }, milliseconds).unref()
  }
  const run = async (): Promise<void> => {
    isWorking = true
    requestCount = 0
    await work(stopping.signal).catch((error: unknown) => {
      if (!stopping.signal.aborted) onFailure(error)
    })
    isWorking = false
    if (stopping.signal.aborted) return
    runIn(requestCount > 0 ? SOON_MILLISECONDS : MINUTE_MILLISECONDS * (1 + JITTER * Math.random()))
  }
  let currentRun = run()
  return {
    soon: () => {
      requestCount += 1
      if (requestCount === 1 && !isWorking && !stopping.signal.aborted) runIn(SOON_MILLISECONDS)
    },
    stop: async () => {
      stopping.abort()
      clearTimeout(timer)
      // Work that does not end in time is abandoned: it can be interrupted anywhere.
      await waitAtMost(limitMilliseconds.stopWork, currentRun)
    }
  }
}
