import { findMisspellings, readEnv, readForEach, readUnusedVariables, type ServerName } from '../config/read-env.js'
import { loadIdentity } from '../config/service-identity.js'
import { serveMetrics } from '../http/listen.js'
import { hintAtLocalNode } from '../ipfs/hint-at-local-node.js'
import { assertIpfsClientInstalled } from '../ipfs/load-ipfs-client.js'
import { crashLog } from '../observability/error-fields.js'
import { serverLog } from '../observability/logger.js'
import { prometheusMetrics } from '../observability/metrics.js'
import { Connections } from '../storage/connections.js'
import { Opened, stopAtSignal } from './shutdown.js'
import type { StartParts, StartServer } from './start-server.js'

/** A server that can be started. */
export interface Starter {
  name: ServerName
  start: StartServer
}

/**
 * Starts servers in this process, and stops them at a signal. When one cannot start, the others stop.
 *
 * @param options - `envFile`: the file that was loaded into the environment, which the ready lines name
 * @throws EnvError before anything starts; StartError when one of them cannot start, once the others have stopped
 */
export async function runServers(
  starters: readonly Starter[],
  { isAll, envFile }: { isAll: boolean; envFile: string | undefined }
): Promise<void> {
  // All environments are read first, so that one message names everything.
  const plans = readForEach(starters, ({ name, start }) => {
    const env = readEnv(process.env, name, isAll)
    return { env, start, log: serverLog(env), opened: new Opened() }
  })
  if (plans.some(({ env }) => env.name !== 'auth' && env.IPFS_API_URL !== undefined)) assertIpfsClientInstalled()
  const [first] = plans
  if (first === undefined) return
  const { env, log } = first
  crashLog(log)
  const names = starters.map(({ name }) => name)
  for (const variable of readUnusedVariables(process.env, names, isAll)) {
    const why = isAll ? 'not used by `all`, where each server has its own' : 'used by `all` only'
    log.warn({ event: 'configuration', variable }, why)
  }
  for (const { variable, known } of findMisspellings(process.env)) {
    log.warn({ event: 'configuration', variable }, `unknown; is it ${known}?`)
  }

  const drain = new AbortController()
  const [metricsServer, shared] = [new Opened(), new Opened()]
  const close = async (): Promise<unknown[]> => {
    const failures = await Promise.all([
      metricsServer.close(),
      ...plans.map(async ({ opened, log }) => {
        const failures = await opened.close()
        if (opened.isServing) log.info({ event: 'stopped' }, 'stopped')
        return failures
      })
    ])
    return [...failures.flat(), ...(await shared.close())]
  }
  stopAtSignal(log, { drain, drainSeconds: env.DRAIN_SECONDS, close })
  const { METRICS_PORT: port, METRICS_HOST: host } = env
  const metrics = port === undefined ? undefined : prometheusMetrics()
  try {
    if (metrics !== undefined && port !== undefined) {
      const where = { port, host, variable: 'METRICS_PORT', hostVariable: 'METRICS_HOST' }
      const served = await serveMetrics(metrics, where)
      metricsServer.add(() => served.stop())
      log.info({ event: 'metrics', url: `${served.url}/metrics` }, 'metrics')
    }
    const connections = await Connections.open(env)
    shared.add(() => connections.close())
    if (metrics !== undefined) connections.watch(metrics)
    let page: string | undefined
    const onPage = (url: string): string => (page = url)
    const serviceUrls: StartParts['serviceUrls'] = new Map()
    const serving: (() => Promise<void>)[] = []
    for (const { env, start, log, opened } of plans) {
      const identity = await loadIdentity(env)
      const draining = drain.signal
      serving.push(
        await start(env, { connections, identity, log, metrics, draining, serviceUrls, envFile, onPage, opened })
      )
    }
    for (const serve of serving) await serve()
    // The one address to open: at every log level, as the ready lines.
    if (page !== undefined) log.child({}, { level: 'info' }).info({ event: 'page', url: page }, `open ${page}`)
    // Not awaited: nothing waits for a node that was not named.
    if (env.IPFS_API_URL === undefined && names.some((name) => name !== 'auth')) void hintAtLocalNode(log)
  } catch (error) {
    await close()
    throw error
  }
}
