import type { Clock } from 'express-did-auth'
import type { ServerAppParts } from '../http/create-app.js'
import { BodyReader } from '../storage/bodies/read-body.js'
import { ContentRepair } from '../ipfs/content-repair.js'
import { PinWorker } from '../ipfs/pin-worker.js'
import { describeError } from '../observability/error-fields.js'
import { repeatWork } from './repeat-work.js'
import type { Contents } from './start-server.js'

/**
 * Begins the work of a server that stores content: pins follow the ledger, and about every minute what is no longer
 * needed is deleted.
 *
 * @param task - the name of its collection in the metrics
 * @param collect - deletes what is no longer needed
 * @returns what routes use of it: no `pins` without an IPFS node; `stop` ends it
 */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function startContentWork(
  { env, contents, node, spool, log, metrics }: Pick<ServerAppParts, 'env' | 'log' | 'metrics'> & Contents,
  clock: Clock,
  task: 'collector' | 'sweep',
  collect: (signal: AbortSignal) => Promise<void>
) {
  const nowSeconds = (): number => clock.nowSeconds()
  const pins = node && new PinWorker({ ledger: contents, store: contents, node, log, nowSeconds })
  pins?.start()
  const collector = repeatWork(
    async (signal) => {
      await collect(signal)
      metrics?.succeeded(env.name, task)
    },
    (error) =>
      log.warn({ event: 'sweep-failed', ...describeError(error) }, 'data that is no longer needed could not be deleted')
  )
  return {
    bodies: new BodyReader(spool),
    repair: new ContentRepair({ store: contents, node, log }),
    pins,
    collector,
    stop: async () => {
      await Promise.all([collector.stop(), pins?.stop()])
    }
  }
}
