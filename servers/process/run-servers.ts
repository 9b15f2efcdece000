import { setTimeout as pause } from 'node:timers/promises'
import type { Logger } from 'pino'
import { findSettingWarnings } from '../config/setting-warnings.js'
import {
  describeIgnoredVariables,
  findMisspellings,
  readEnvs,
  findUnusedVariables,
  type Env,
  type EnvFile,
  type ServerEnv,
  type ServerName
} from '../config/read-env.js'
import { loadIdentity } from '../config/service-identity.js'
import { limitMilliseconds } from '../config/time-limits.js'
import { serveMetrics } from '../http/listen.js'
import { logLocalNodeHint } from '../ipfs/ipfs-rpc-client.js'
import { exitOnCrash, describeError } from '../observability/error-fields.js'
import { writeLine, createServerLog } from '../observability/logger.js'
import { Metrics } from '../observability/metrics.js'
import { Connections } from '../content/connections.js'
import { CloseStack, listenForServer, type ServerOpener } from './start-server.js'

const PARENT_CHECK_MILLISECONDS = 250

/** Functions that load a server when it is needed, because loading takes time. */
export type ServerLoaders = Readonly<Record<ServerName, () => Promise<ServerOpener>>>

/**
 * Starts servers in this process and stops them at a signal. The ready lines name `envFile`.
 *
 * @throws StartError if the environment is invalid, or if a server cannot start. The other servers are then stopped
 */
export async function runServers(
  names: readonly ServerName[],
  loaders: ServerLoaders,
  { env: variables, envFile }: { env: Env; envFile?: EnvFile | undefined }
): Promise<void> {
  const isAll = names.length > 1
  // All environments are read first, so that one message names all problems.
  const envs = readEnvs(variables, names, isAll)
  const plans = await Promise.all(
    envs.map(async (env) => ({
      env,
      open: await loaders[env.name](),
      log: createServerLog(env),
      closeStack: new CloseStack()
    }))
  )
  const [first] = plans
  if (first === undefined) return
  const { env, log } = first
  exitOnCrash(log)
  logWarnings(log, envs, { variables, names, envFile })
  const drain = new AbortController()
  const sharedCloseStack = new CloseStack()
  const close = async (): Promise<unknown[]> => {
    const failures = await Promise.all(plans.map(({ closeStack }) => closeStack.close()))
    return [...failures.flat(), ...(await sharedCloseStack.close())]
  }
  stopAtSignal(log, drain, env.DRAIN_SECONDS, close)
  const { METRICS_PORT: port, METRICS_HOST: host } = env
  const metrics = port === undefined ? undefined : new Metrics()
  try {
    if (metrics !== undefined && port !== undefined) {
      const address = { port, host, variable: 'METRICS_PORT', hostVariable: 'METRICS_HOST' }
      const metricsServer = await serveMetrics(metrics, address)
      sharedCloseStack.add(() => metricsServer.stop())
      log.info({ event: 'metrics', url: `${metricsServer.url}/metrics` }, 'serving Prometheus metrics')
    }
    const connections = await Connections.open(env)
    sharedCloseStack.add(() => connections.close())
    if (metrics !== undefined) connections.watch(metrics)
    const serviceUrls = new Map<ServerName, string>()
    const listenUrls = new Map<ServerName, string>()
    const urls = { serviceUrls, listenUrls }
    const sharedParts = { connections, metrics, draining: drain.signal, ...urls, envFile: envFile?.name }
    const servers = []
    for (const { env, open, log, closeStack } of plans) {
      const identity = await loadIdentity(env, isAll)
      const server = await open(env, connections)
      const { build } = server
      servers.push({ build, ...(await listenForServer({ ...sharedParts, env, identity, log, closeStack }, server)) })
      if (drain.signal.aborted) return
    }
    let pageUrl: string | undefined
    // An application needs the URLs of all servers.
    for (const { build, parts, serve } of servers) {
      const app = build(parts)
      pageUrl ??= app.pageUrl
      await serve(app)
      if (drain.signal.aborted) return
    }
    if (pageUrl !== undefined) writeLine(log, { event: 'page', url: pageUrl }, `open ${pageUrl} in a browser`)
    // Not awaited, because the start does not depend on a node that is not configured.
    if (env.IPFS_API_URL === undefined && names.some((name) => name !== 'auth')) void logLocalNodeHint(log)
  } catch (error) {
    // After a signal, errors of the start are expected, because the signal closes its resources.
    if (drain.signal.aborted) return
    await close()
    throw error
  }
}

/** Logs a warning for each variable that is probably a mistake. */
function logWarnings(
  log: Logger,
  envs: readonly ServerEnv[],
  { variables, names, envFile }: { variables: Env; names: readonly ServerName[]; envFile: EnvFile | undefined }
): void {
  const isAll = names.length > 1
  for (const variable of findUnusedVariables(variables, names, isAll)) {
    const sentence = isAll
      ? `${variable} has no effect with the command \`all\`. Set AUTH_${variable}, RELAY_${variable} and VAULT_${variable}.`
      : `${variable} has an effect only with the command \`all\`.`
    log.warn({ event: 'configuration', variable }, sentence)
  }
  for (const { variable, suggestion } of findMisspellings(variables)) {
    const sentence = `${variable} is not a variable of the servers. Did you mean ${suggestion}?`
    log.warn({ event: 'configuration', variable }, sentence)
  }
  // Several servers of a process may have the same warning.
  const warnings = new Map(envs.flatMap(findSettingWarnings).map((warning) => [warning.problem, warning]))
  for (const { variable, problem, remedy } of warnings.values()) {
    log.warn({ event: 'configuration', variable }, `${problem}. Set ${remedy}`)
  }
  if (envFile !== undefined && envFile.ignored.length > 0) {
    const { name: file, ignored } = envFile
    log.warn({ event: 'configuration', file, variables: ignored }, describeIgnoredVariables(envFile))
  }
}

/**
 * Stops the servers at SIGTERM, at SIGINT, or when the npm that started the process has ended. Exits with code 0, or
 * with code 1 if the stop does not end in time or a resource cannot be closed.
 *
 * Further signals are ignored: at Ctrl-C the terminal sends one signal, and npm forwards another.
 *
 * @param drain - aborted at the signal, so that `/ready` answers 503; `drainSeconds` later the servers stop listening
 * @param close - closes all open resources, also during the start. Resolves to the errors
 */
export function stopAtSignal(
  log: Pick<Logger, 'info' | 'error'>,
  drain: AbortController,
  drainSeconds: number,
  close: CloseStack['close']
): void {
  const stop = async (signal: NodeJS.Signals): Promise<void> => {
    if (drain.signal.aborted) return
    log.info({ event: 'stopping', signal }, 'stopping the servers')
    drain.abort()
    if (drainSeconds > 0) await pause(drainSeconds * 1_000)
    setTimeout(() => {
      log.error({ event: 'stopped-late' }, 'the stop did not end in time; exiting now')
      process.exit(1)
    }, limitMilliseconds.stopProcess)
    const failures = await close()
    for (const failure of failures)
      log.error({ event: 'stop-failed', ...describeError(failure) }, 'a resource could not be closed')
    process.exit(failures.length === 0 ? 0 : 1)
  }
  // These listeners replace those of the command line, which exit at once.
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    process.removeAllListeners(signal)
    process.on(signal, () => void stop(signal))
  }
  watchNpm(() => void stop('SIGTERM'))
}

/** Watches the parent process. Some shells between npm and this process end at a signal without forwarding it. */
function watchNpm(onEnd: () => void): void {
  if (process.env.npm_lifecycle_event === undefined) return
  const { ppid } = process
  const check = setInterval(() => {
    if (process.ppid === ppid) return
    clearInterval(check)
    onEnd()
  }, PARENT_CHECK_MILLISECONDS).unref()
}
