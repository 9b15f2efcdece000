import { crashLog } from '../observability/crash-log.js'
import { logPage, serverLog } from '../observability/logger.js'
import { serveMetrics } from '../http/serve-metrics.js'
import { prometheusMetrics, type Metrics } from '../observability/metrics.js'
import { readEnv, readForEach, readUnusedVariables, type ServerEnv, type ServerName } from '../config/read-env.js'
import type { Logger } from 'pino'
import type { Running } from '../http/listen.js'
import { stopAtSignal } from './shutdown.js'

/** What a server receives at its start. */
export interface Surroundings {
  log: Logger
  metrics: Metrics | undefined
  /** Aborts when the process is about to stop. */
  draining: AbortSignal
  /** Each server adds its own, in the order in which they start: auth, relay, vault. */
  serviceUrls: Map<ServerName, string>
  /** Called by the server that has a page for people. */
  onPage: (url: string) => void
}

/** A server that can be started. */
export interface Starter {
  name: ServerName
  start: (env: ServerEnv, surroundings: Surroundings) => Promise<Running>
}

/**
 * Starts servers in this process, and stops them at a signal. When one cannot start, the others stop.
 *
 * @throws EnvError before anything starts; StartError when one of them cannot start, once the others have stopped
 */
export async function runServers(starters: readonly Starter[], isAll: boolean): Promise<void> {
  // All environments are read first, so that one message names everything.
  const plans = readForEach(starters, ({ name, start }) => {
    const env = readEnv(process.env, name, isAll)
    return { env, start, log: serverLog(env) }
  })
  const [first] = plans
  if (first === undefined) return
  const { env, log } = first
  crashLog(log)
  const names = starters.map(({ name }) => name)
  for (const variable of readUnusedVariables(process.env, names, isAll)) {
    const why = isAll ? 'not used by `all`, where each server has its own' : 'used by `all` only'
    log.warn({ event: 'configuration', variable }, why)
  }

  const running: Running[] = []
  const drain = new AbortController()
  const { METRICS_PORT: port, HOST: host, DRAIN_SECONDS: drainSeconds } = env
  stopAtSignal(running, log, { drain, drainSeconds })
  const metrics = port === undefined ? undefined : prometheusMetrics()
  try {
    if (metrics !== undefined && port !== undefined) {
      const served = await serveMetrics(metrics, { port, host, variable: 'METRICS_PORT' })
      running.push(served)
      log.info({ event: 'metrics', url: `${served.url}/metrics` }, 'metrics')
    }
    const serviceUrls: Surroundings['serviceUrls'] = new Map()
    let page: string | undefined
    const onPage = (url: string): void => {
      page = url
    }
    const shared = { metrics, draining: drain.signal, serviceUrls, onPage }
    for (const plan of plans) running.push(await plan.start(plan.env, { log: plan.log, ...shared }))
    if (page !== undefined) logPage(log, page)
  } catch (error) {
    await Promise.allSettled(running.map((server) => server.stop()))
    throw error
  }
}
