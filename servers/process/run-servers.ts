import { setTimeout as pause } from 'node:timers/promises'
import type { Logger } from 'pino'
import { findSettingWarnings } from '../config/setting-warnings.js'
import {
  findMisspellings,
  readEnvs,
  readUnusedVariables,
  type Env,
  type EnvFile,
  type ServerName
} from '../config/read-env.js'
import { loadIdentity } from '../config/service-identity.js'
import { serveMetrics } from '../http/listen.js'
import { logLocalNodeHint } from '../ipfs/ipfs-rpc-client.js'
import { exitOnCrash, describeError } from '../observability/error-fields.js'
import { writeLine, createServerLog } from '../observability/logger.js'
import { Metrics } from '../observability/metrics.js'
import { Connections } from '../storage/connections.js'
import { CloseStack, type StartParts, type StartServer } from './start-server.js'

/** A little less than the 10 s after which many supervisors kill. */
const STOP_MILLISECONDS = 9_500
const CHECK_MILLISECONDS = 250

/** Loads what starts each server, when it is needed: that takes its time. */
export type Starters = Readonly<Record<ServerName, () => Promise<StartServer>>>

/**
 * Starts servers in this process, and stops them at a signal. The ready lines name `envFile` as the file of settings.
 *
 * @throws StartError when the environment is wrong, or one of them cannot start, once the others have stopped
 */
export async function runServers(
  names: readonly ServerName[],
  starters: Starters,
  { env: given, envFile }: { env: Env; envFile?: EnvFile | undefined }
): Promise<void> {
  const isAll = names.length > 1
  // All environments are read first, so that one message names everything.
  const envs = readEnvs(given, names, isAll)
  const plans = await Promise.all(
    envs.map(async (env) => ({
      env,
      start: await starters[env.name](),
      log: createServerLog(env),
      closeStack: new CloseStack()
    }))
  )
  const [first] = plans
  if (first === undefined) return
  const { env, log } = first
  exitOnCrash(log)
  for (const variable of readUnusedVariables(given, names, isAll)) {
    const why = isAll ? 'not used by `all`, where each server has its own' : 'used by `all` only'
    log.warn({ event: 'configuration', variable }, why)
  }
  for (const { variable, known } of findMisspellings(given)) {
    log.warn({ event: 'configuration', variable }, `unknown; is it ${known}?`)
  }
  // The servers of a process share some.
  const warnings = new Map(envs.flatMap(findSettingWarnings).map((warning) => [warning.what, warning]))
  for (const { variable, what, remedy } of warnings.values()) {
    log.warn({ event: 'configuration', variable }, `${what}: ${remedy}`)
  }

  if (envFile !== undefined && envFile.ignored.length > 0) {
    const { name: file, ignored: variables } = envFile
    log.warn({ event: 'configuration', file, variables }, `ignored, because no server has it: ${variables.join(', ')}`)
  }

  const drain = new AbortController()
  const shared = new CloseStack()
  const close = async (): Promise<unknown[]> => {
    const failures = await Promise.all(plans.map(({ closeStack }) => closeStack.close()))
    return [...failures.flat(), ...(await shared.close())]
  }
  stopAtSignal(log, drain, env.DRAIN_SECONDS, close)
  const { METRICS_PORT: port, METRICS_HOST: host } = env
  const metrics = port === undefined ? undefined : new Metrics()
  try {
    if (metrics !== undefined && port !== undefined) {
      const where = { port, host, variable: 'METRICS_PORT', hostVariable: 'METRICS_HOST' }
      const served = await serveMetrics(metrics, where)
      shared.add(() => served.stop())
      log.info({ event: 'metrics', url: `${served.url}/metrics` }, 'metrics')
    }
    const connections = await Connections.open(env)
    shared.add(() => connections.close())
    if (metrics !== undefined) connections.watch(metrics)
    let page: string | undefined
    const onPage = (url: string): string => (page = url)
    const serviceUrls: StartParts['serviceUrls'] = new Map()
    const common = { connections, metrics, draining: drain.signal, serviceUrls, envFile: envFile?.name, onPage }
    const serving: (() => Promise<void>)[] = []
    for (const { env, start, log, closeStack } of plans) {
      serving.push(await start(env, { ...common, identity: await loadIdentity(env, isAll), log, closeStack }))
      if (drain.signal.aborted) return
    }
    for (const serve of serving) {
      await serve()
      if (drain.signal.aborted) return
    }
    if (page !== undefined) writeLine(log, { event: 'page', url: page }, `open ${page}`)
    // Not awaited: nothing waits for a node that was not named.
    if (env.IPFS_API_URL === undefined && names.some((name) => name !== 'auth')) void logLocalNodeHint(log)
  } catch (error) {
    // A signal closes what a start is about to use, and then ends the process.
    if (drain.signal.aborted) return
    await close()
    throw error
  }
}

/**
 * Stops at SIGTERM or SIGINT, also when the npm that started the process has ended, and exits with code 0. Further
 * signals change nothing: at Ctrl-C the terminal sends one and npm passes on another.
 *
 * @param drain - aborted at the signal, so that `/ready` answers 503; `drainSeconds` later the servers stop listening
 * @param close - closes all that is open by then: a signal may come while servers start. Resolves to what failed
 */
function stopAtSignal(log: Logger, drain: AbortController, drainSeconds: number, close: CloseStack['close']): void {
  const stop = async (signal: NodeJS.Signals): Promise<void> => {
    if (drain.signal.aborted) return
    log.info({ event: 'stopping', signal }, 'stopping')
    drain.abort()
    if (drainSeconds > 0) await pause(drainSeconds * 1_000)
    setTimeout(() => {
      log.error({ event: 'stopped-late' }, 'requests in flight did not end in time')
      process.exit(1)
    }, STOP_MILLISECONDS)
    const failures = await close()
    for (const failure of failures) log.error({ event: 'stop-failed', ...describeError(failure) }, 'stop failed')
    process.exit(failures.length === 0 ? 0 : 1)
  }
  // The command line has its own listeners until now.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.removeAllListeners(signal)
    process.on(signal, () => void stop(signal))
  }
  watchNpm(() => void stop('SIGTERM'))
}

/** npm passes a signal to a shell in between. Some end without passing it on, and this process would keep its ports. */
function watchNpm(end: () => void): void {
  if (process.env.npm_lifecycle_event === undefined) return
  const { ppid } = process
  const check = setInterval(() => {
    if (process.ppid === ppid) return
    clearInterval(check)
    end()
  }, CHECK_MILLISECONDS).unref()
}
