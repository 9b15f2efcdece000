import type { RequestListener } from 'node:http'
import type { Logger } from 'pino'
import { codeOf } from '../config/startup-error.js'
import {
  findMisspellings,
  readEnv,
  readForEach,
  readUnusedVariables,
  type ServerEnv,
  type ServerName
} from '../config/read-env.js'
import { loadIdentity } from '../config/service-identity.js'
import { type ServerApp, type ShellParts, waitingApp } from '../http/create-app.js'
import { type Build, type Running, serve, serveMetrics } from '../http/listen.js'
import { crashLog } from '../observability/error-fields.js'
import { logPage, logReady, serverLog } from '../observability/logger.js'
import { type Metrics, prometheusMetrics } from '../observability/metrics.js'
import type { ContentMaintenance } from '../storage/content-store.js'
import type { UsedPercent } from '../storage/disk-space.js'
import { Engines } from '../storage/engines.js'
import { stopAtSignal } from './shutdown.js'
import { hintAtLocalNode } from '../ipfs/hint-at-local-node.js'
import type { IpfsNode } from '../ipfs/ipfs-node.js'
import { ipfsHttpNode } from '../ipfs/ipfs-rpc-client.js'
import type { OpenContentStore } from '../storage/sqlite/open-content-store.js'

/** What a server receives at its start. */
export interface Surroundings {
  engines: Engines
  log: Logger
  metrics: Metrics | undefined
  /** Aborts when the process is about to stop. */
  draining: AbortSignal
  /** Each server adds its own, in the order in which they start: auth, relay, vault. */
  serviceUrls: Map<ServerName, string>
  /** What was loaded into the environment. */
  envFile: string | undefined
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
  for (const { variable, known } of findMisspellings(process.env)) {
    log.warn({ event: 'configuration', variable }, `unknown; is it ${known}?`)
  }

  const running: Running[] = []
  const closing: { close: () => Promise<void> }[] = []
  const drain = new AbortController()
  const { METRICS_PORT: port, METRICS_HOST: host, DRAIN_SECONDS: drainSeconds } = env
  stopAtSignal(running, log, { drain, drainSeconds, closing })
  const metrics = port === undefined ? undefined : prometheusMetrics()
  try {
    if (metrics !== undefined && port !== undefined) {
      const served = await serveMetrics(metrics, { port, host, variable: 'METRICS_PORT', hostVariable: 'METRICS_HOST' })
      running.push(served)
      log.info({ event: 'metrics', url: `${served.url}/metrics` }, 'metrics')
    }
    const engines = await Engines.open(env)
    closing.push(engines)
    if (metrics !== undefined) engines.watch(metrics)
    const serviceUrls: Surroundings['serviceUrls'] = new Map()
    let page: string | undefined
    const onPage = (url: string): void => {
      page = url
    }
    const shared = { engines, metrics, draining: drain.signal, serviceUrls, onPage, envFile }
    for (const plan of plans) running.push(await plan.start(plan.env, { log: plan.log, ...shared }))
    if (page !== undefined) logPage(log, page)
    // Not awaited: nothing waits for a node that nobody named.
    if (env.IPFS_API_URL === undefined && names.some((name) => name !== 'auth')) void hintAtLocalNode(log)
  } catch (error) {
    await Promise.allSettled(running.map((server) => server.stop()))
    await Promise.allSettled(closing.map((one) => one.close()))
    throw error
  }
}

/** Relay and vault receive content: 8 MiB at the minimum data rate of 4 KiB/s are 34 minutes. */
const UPLOAD_MILLISECONDS = 3_600_000

/** What makes one server of several: its application, and what it stores besides sessions. */
export interface ServerPlan {
  /** Called once the port is known, which the server's URL may depend on. */
  build: (parts: ShellParts) => ServerApp
  /** Asked by `/ready`. */
  contents?: Pick<ContentMaintenance, 'probe'>
  /** Where content lies, for people. */
  contentPlace?: string
}

/**
 * Starts a server, and logs one line when it can be used.
 *
 * @throws StartError
 */
export async function startServer(
  env: ServerEnv,
  { engines, log, metrics, draining, serviceUrls, envFile }: Surroundings,
  { build, contents, contentPlace }: ServerPlan
): Promise<Running> {
  const identity = await loadIdentity(env)
  const opened = await engines.openStore(env)
  const { store } = opened
  const dependencies = engines.dependenciesOf(opened, { name: env.name, contents })
  let parts: ShellParts = { env, identity, serviceUrl: '', log, store, dependencies, metrics, draining, serviceUrls }
  let app: ServerApp | undefined
  let listener: RequestListener
  const buildHere: Build = (port) => {
    parts = { ...parts, serviceUrl: env.SERVICE_URL ?? `http://localhost:${port}` }
    serviceUrls.set(env.name, parts.serviceUrl)
    listener = waitingApp(parts)
    const release = async (): Promise<void> => {
      await app?.close()
      await store.close()
      log.info({ event: 'stopped' }, 'stopped')
    }
    const current: RequestListener = (req, res) => {
      listener(req, res)
    }
    return { listener: current, release }
  }
  const limits = { maxConnections: env.MAX_CONNECTIONS, ...(env.name !== 'auth' && { request: UPLOAD_MILLISECONDS }) }
  try {
    const running = await serve(env.address, buildHere, limits)
    await engines.whenAvailable(env, ({ name, variable }, reason) => {
      const sentence = `waiting for ${name === 'redis' ? 'Redis' : 'the database'} (${variable}): ${reason}`
      log.warn({ event: 'waiting', dependency: name, variable, reason, url: running.url }, sentence)
    })
    app = build(parts)
    listener = app.listener
    await app.ready.catch((error: unknown) => {
      // A database or a Redis elsewhere may be unavailable again: the server runs, and `/ready` says what it lacks.
      if (!engines.areElsewhere || codeOf(error) !== 'ERR_STORE') throw error
    })
    const { serviceUrl } = parts
    logReady(log, { url: running.url, serviceUrl, serviceDid: identity.serviceDid, content: contentPlace, envFile })
    return running
  } catch (error) {
    await store.close()
    throw error
  }
}

/** What relay and vault are built of. */
export interface ContentServerParts extends ShellParts {
  contents: OpenContentStore['store']
  /** Where bodies lie while they arrive. */
  spool: OpenContentStore['spool']
  /** Undefined: none is configured. */
  node: IpfsNode | undefined
  usedPercent: UsedPercent
}

/**
 * Starts a server that stores content, and pins it where there is an IPFS node.
 *
 * @throws StartError
 */
export async function startContentServer(
  env: ServerEnv,
  surroundings: Surroundings,
  build: (parts: ContentServerParts) => ServerApp
): Promise<Running> {
  const { store: contents, spool } = await surroundings.engines.openContents(env)
  const usedPercent = surroundings.engines.usedPercent(env)
  const node = env.IPFS_API_URL === undefined ? undefined : ipfsHttpNode(env.IPFS_API_URL)
  const watchPins = (): void => {
    surroundings.metrics?.watch('did_auth_pins_open', async () => [
      { labels: { server: env.name }, value: await contents.countOpen() }
    ])
  }
  try {
    return await startServer(env, surroundings, {
      contents,
      contentPlace: node === undefined ? 'here' : `here and on IPFS ${new URL(env.IPFS_API_URL ?? '').host}`,
      build: (parts) => {
        const app = build({ ...parts, contents, spool, node, usedPercent })
        if (node !== undefined) watchPins()
        const close = async (): Promise<void> => {
          const closed = app.close()
          // Calls under way are made again after the next start.
          node?.close()
          await closed
          await contents.close()
        }
        return { ...app, close }
      }
    })
  } catch (error) {
    await contents.close()
    throw error
  }
}
