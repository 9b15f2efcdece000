import type { Clock } from 'express-did-auth'
import { waitAtMost } from 'express-did-auth/server-kit'
import { limitMilliseconds } from '../config/time-limits.js'
import type { ServerAppParts } from '../http/create-app.js'
import { BodyReader } from '../content/read-body.js'
import { createContentRepair } from '../ipfs/content-repair.js'
import { PinWorker } from '../ipfs/pin-worker.js'
import { describeError } from '../observability/error-fields.js'
import type { Samples } from '../observability/metrics.js'
import type { Contents } from './start-server.js'

const MINUTE_MILLISECONDS = 60_000
/** Delay of requested work, so that several requests cause only one run. */
const SOON_MILLISECONDS = 1_000
/** Maximum random extension of an interval, as a fraction, so that instances do not work at the same time. */
const JITTER = 0.2

/**
 * Starts the background work of a server that stores content. It pins and unpins content on the IPFS node according to
 * the pin ledger, and deletes expired files and unused content about every minute.
 *
 * @param task - name of `collect` in the metrics
 * @param collect - deletes expired files and unused content
 * @returns functions for routes. Without an IPFS node, `settlePins` resolves to true, and pins stay open in the ledger
 */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- the return type is inferred
export function startContentWork(
  { env, contents, node, spool, usedPercent, log, metrics }: Pick<ServerAppParts, 'env' | 'log' | 'metrics'> & Contents,
  clock: Clock,
  task: 'collector' | 'sweep',
  collect: (signal: AbortSignal) => Promise<void>
) {
  const pinWorker = node && new PinWorker({ ledger: contents, store: contents, node, log, clock })
  pinWorker?.start()
  const server = env.name
  const countOpenPins = async (): Promise<Samples> => [{ labels: { server }, value: await contents.countOpen() }]
  if (pinWorker) metrics?.watch('did_auth_pins_open', countOpenPins)
  let storedBytes: Samples = []
  metrics?.watch('did_auth_stored_bytes', () => storedBytes)
  const maxBytes = server === 'relay' ? env.RELAY_MAX_STORE_BYTES : env.VAULT_MAX_STORE_BYTES
  if (maxBytes !== undefined)
    metrics?.watch('did_auth_stored_bytes_limit', () => [{ labels: { server }, value: maxBytes }])
  const readUsedRatio = async (): Promise<Samples> => [{ labels: { server }, value: (await usedPercent()) / 100 }]
  // Content in a database is not on a local disk.
  if (env.DATABASE_URL === undefined) metrics?.watch('did_auth_disk_used_ratio', readUsedRatio)
  let lastSuccess: Samples = []
  metrics?.watch('did_auth_task_success_timestamp_seconds', () => lastSuccess)
  const collector = repeatWork(
    async (signal) => {
      await collect(signal)
      lastSuccess = [{ labels: { server, task }, value: clock.nowSeconds() }]
      // The sum over many files is too slow for each read of the metrics.
      if (metrics !== undefined) storedBytes = [{ labels: { server }, value: await contents.storedBytes() }]
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
    settlePins: async (cids: readonly string[]) => pinWorker === undefined || pinWorker.settle(cids),
    collectSoon: collector.soon,
    stop: async () => {
      await Promise.all([collector.stop(), pinWorker?.stop()])
    }
  }
}

/** Functions of the background work that routes use. */
export type ContentWork = ReturnType<typeof startContentWork>

/**
 * Runs work now and about every minute, but never in parallel. Its timers do not keep the process alive.
 *
 * @param work - should stop when its signal aborts
 * @returns `soon` schedules one run in 1 s, or 1 s after the end of the running work; repeated calls add no run.
 *   `stop` aborts the work, and resolves when it has ended, or after 3 s
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
      // Work that does not end in time is abandoned. This is safe, because work may be interrupted at any point.
      await waitAtMost(limitMilliseconds.stopWork, currentRun)
    }
  }
}
