import { waitAtMost } from 'express-did-auth/server-kit'
import { getErrorCode } from '../config/startup-error.js'
import type { ServerEnv, ServerName } from '../config/read-env.js'
import { limitMilliseconds } from '../config/time-limits.js'
import { type ServerApp, type ServerAppParts, startingApp } from '../http/create-app.js'
import { listen } from '../http/listen.js'
import type { IpfsNode } from '../ipfs/ipfs-node.js'
import { createIpfsHttpNode, type IpfsHttpNode } from '../ipfs/ipfs-rpc-client.js'
import { writeLine } from '../observability/logger.js'
import type { Connections } from '../content/connections.js'
import type { UsedPercent } from '../content/disk-space.js'
import { openContentEngine, type Engine } from '../content/engine.js'
import type { OpenContentStore } from '../content/sql/sql-content-store.js'

/** Resources that a server has opened. They are closed in reverse order, also if the rest of the start fails. */
export class CloseStack {
  readonly #closings: (() => Promise<unknown>)[] = []

  add(close: () => Promise<unknown>): void {
    this.#closings.unshift(close)
  }

  /** @returns the errors of closings that failed */
  async close(): Promise<unknown[]> {
    const failures: unknown[] = []
    for (const close of this.#closings.splice(0)) await close().catch((error: unknown) => failures.push(error))
    return failures
  }
}

/** Parts for starting a server. */
export interface StartParts extends Pick<ServerAppParts, 'env' | 'identity' | 'log' | 'metrics' | 'draining'> {
  connections: Connections
  /** URLs of the servers. Each server adds its URL when it listens, in this order: auth, relay, vault. */
  serviceUrls: Map<ServerName, string>
  listenUrls: Map<ServerName, string>
  /** Name of the file that was loaded into the environment. */
  envFile: string | undefined
  closeStack: CloseStack
}

/** Parts of relay and vault for storing content. */
export interface Contents {
  contents: OpenContentStore['store']
  /** Temporary files for request bodies. */
  spool: OpenContentStore['spool']
  /** IPFS node; undefined if none is configured. */
  node: (IpfsNode & Partial<Pick<IpfsHttpNode, 'close'>>) | undefined
  usedPercent: UsedPercent
}

/** Open storage of a server, and the function that builds its application. */
export interface OpenServer {
  engine: Engine
  /** Absent if the server stores no content. */
  content?: Contents
  build: (parts: ServerAppParts) => ServerApp
}

/** Opens the storage of a server. Engines in the network may be unavailable. @throws StartError */
export type ServerOpener = (env: ServerEnv, connections: Connections) => Promise<OpenServer>

/** Opens the storage of a server that stores content. @throws StartError */
export async function openContentServer(
  env: ServerEnv,
  connections: Connections,
  build: (parts: ServerAppParts & Contents) => ServerApp
): Promise<OpenServer> {
  const engine = await openContentEngine(env, connections)
  const { store: contents, spool } = engine.contents
  const node = env.IPFS_API_URL === undefined ? undefined : createIpfsHttpNode(env.IPFS_API_URL)
  const content = { contents, spool, node, usedPercent: engine.usedPercent }
  return { engine, content, build: (parts) => build({ ...parts, ...content }) }
}

/** A server that listens. */
export interface ListeningServer {
  /** Parts for building the application. */
  parts: ServerAppParts
  /** Answers requests with the application, and logs the ready line. @throws Error if the application cannot start */
  serve: (app: ServerApp) => Promise<void>
}

/**
 * Listens, and waits until database and Redis are available, or the disk answers. Until `serve`, all requests except
 * `/health` get 503.
 *
 * @param server - its engine is closed when the server stops, and also if it cannot start
 * @throws StartError
 */
export async function listenForServer(start: StartParts, { engine, content }: OpenServer): Promise<ListeningServer> {
  const { env, connections, identity, log, metrics, draining, serviceUrls, listenUrls, envFile, closeStack } = start
  closeStack.add(() => engine.close())
  const uploads = content && { request: limitMilliseconds.upload }
  const perNetwork = env.TRUST_PROXY === false || env.TRUST_PROXY === 0
  const server = await listen(env.address, { maxConnections: env.MAX_CONNECTIONS, perNetwork, ...uploads })
  let app: ServerApp | undefined
  closeStack.add(async () => {
    await server.stop()
    const closed = app?.close()
    // Calls in flight are repeated after the next start.
    content?.node?.close?.()
    await closed
    log.info({ event: 'stopped' }, 'the server has stopped')
  })
  const serviceUrl = env.SERVICE_URL ?? `http://localhost:${server.port}`
  serviceUrls.set(env.name, serviceUrl)
  listenUrls.set(env.name, server.url)
  const { sessions: store, dependencies } = engine
  const parts = { env, identity, serviceUrl, log, store, dependencies, metrics, draining, serviceUrls, listenUrls }
  server.serve(startingApp(parts))
  await connections.whenAvailable(({ name, variable }, reason) => {
    const engineName = name === 'redis' ? 'Redis' : 'the database'
    const sentence = `waiting for ${engineName} (${variable}): ${reason}`
    log.warn({ event: 'waiting', dependency: name, variable, reason, url: server.url }, sentence)
  })
  await waitForDisk(engine, (reason) => {
    const fields = { event: 'waiting', dependency: 'store', variable: 'DATA_DIR', reason, url: server.url }
    log.warn(fields, `waiting for the disk (DATA_DIR): ${reason}`)
  })
  const serve = async (serverApp: ServerApp): Promise<void> => {
    app = serverApp
    server.serve(app.listener)
    await app.ready.catch((error: unknown) => {
      // An engine may be unavailable for a time, or a disk slow. The server then runs, and `/ready` reports it.
      if (getErrorCode(error) !== 'ERR_STORE' || (!connections.areRemote && isDiskFault(error))) throw error
    })
    if (draining?.aborted === true) return
    const { serviceDid } = identity
    const node = env.IPFS_API_URL === undefined ? '' : ` and on IPFS ${new URL(env.IPFS_API_URL).host}`
    const location = content && `local${node}`
    const details = `${location ? `, content: ${location}` : ''}${envFile ? `, settings from ${envFile}` : ''}`
    const ready = { event: 'ready', url: server.url, serviceUrl, serviceDid, content: location, envFile }
    writeLine(log, ready, `ready at ${serviceUrl} as ${serviceDid}${details}`)
  }
  return { parts, serve }
}

/** Waits for the first check of storage on the disk. Its faults are reported by the application, or by `/ready`. */
async function waitForDisk({ dependencies }: Engine, onSlow: (reason: string) => void): Promise<void> {
  const disk = dependencies.find(({ name }) => name === 'store')
  const answer = Promise.resolve(disk?.check(new AbortController().signal)).then(
    () => true,
    () => true
  )
  if ((await waitAtMost(limitMilliseconds.dependencyCheck, answer)) === true) return
  onSlow('no answer in time')
  await answer
}

/** Whether SQLite has reported a fault, and not only that it waits for the disk or for another process. */
function isDiskFault(error: unknown): boolean {
  const code = error instanceof Error ? getErrorCode(error.cause) : undefined
  return code !== undefined && !code.startsWith('SQLITE_BUSY')
}
