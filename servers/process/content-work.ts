import type { Clock } from 'express-did-auth'
import { waitAtMost } from 'express-did-auth/server-kit'
import type { ServerAppParts } from '../http/create-app.js'
import { BodyReader } from '../bodies/read-body.js'
import { createContentRepair } from '../ipfs/content-repair.js'
import { PinWorker } from '../ipfs/pin-worker.js'
import { describeError } from '../observability/error-fields.js'
import type { Samples } from '../observability/metrics.js'
import type { Contents } from './start-server.js'

const MINUTE_MILLISECONDS = 60_000
/** How long a stop waits for work in progress. */
const STOP_MILLISECONDS = 3_000
/** How long work that is due soon waits for more reasons to do it. */
const SOON_MILLISECONDS = 1_000
/** Maximum part of a minute that is added, so that processes that start together do not work together. */
const JITTER = 0.2

/**
 * Starts the background work of a server that stores content: pins follow the ledger, and content that is no longer
 * needed is deleted about every minute.
 *
 * @param task - name of `collect`, which deletes content that is no longer needed, in the metrics
 * @returns functions for routes. Without an IPFS node, `settlePins` leaves previous pins in the ledger
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
      log.warn({ event: 'sweep-failed', ...describeError(error) }, 'data that is no longer needed could not be deleted')
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

/** Functions with which routes use the background work of a server that stores content. */
export type ContentWork = ReturnType<typeof startContentWork>

/**
 * Runs work now and about every minute, never twice at once. The signal asks it to stop; it keeps no process alive.
 *
 * @returns `soon` runs work within a second, or within a second after running work; `stop` resolves when no work is
 *   running, or after 3 s
 */
export function repeatWork(
  work: (signal: AbortSignal) => Promise<void>,
  onFailure: (error: unknown) => void
): { soon: () => void; stop: () => Promise<void> } {
  const stopping = new AbortController()
  let timer: NodeJS.Timeout | undefined
  let isWorking = false
  /** Number of calls of `soon` since the work began last. */
  let asked = 0
  const runIn = (milliseconds: number): void => {
    clearTimeout(timer)
    timer = setTimeout(() => {
      underWay = run()
    }, milliseconds).unref()
  }
  const run = async (): Promise<void> => {
    isWorking = true
    asked = 0
    await work(stopping.signal).catch((error: unknown) => {
      if (!stopping.signal.aborted) onFailure(error)
    })
    isWorking = false
    if (stopping.signal.aborted) return
    runIn(asked > 0 ? SOON_MILLISECONDS : MINUTE_MILLISECONDS * (1 + JITTER * Math.random()))
  }
  let underWay = run()
  return {
    soon: () => {
      asked += 1
      if (asked === 1 && !isWorking && !stopping.signal.aborted) runIn(SOON_MILLISECONDS)
    },
    stop: async () => {
      stopping.abort()
      clearTimeout(timer)
      // Work that waits for something unavailable is left behind: it is safe to end anywhere.
      await waitAtMost(STOP_MILLISECONDS, underWay)
    }
  }
}
