import { getErrorCode } from '../config/startup-error.js'
import type { ServerEnv, ServerName } from '../config/read-env.js'
import { type ServerApp, type ServerAppParts, startingApp } from '../http/create-app.js'
import { listen } from '../http/listen.js'
import type { IpfsNode } from '../ipfs/ipfs-node.js'
import { createIpfsHttpNode, type IpfsHttpNode } from '../ipfs/ipfs-rpc-client.js'
import { writeLine } from '../observability/logger.js'
import type { Connections } from '../storage/connections.js'
import type { UsedPercent } from '../storage/disk-space.js'
import { openContentEngine, type Engine } from '../storage/engine.js'
import type { OpenContentStore } from '../storage/sql/sql-content-store.js'

/** Time limit for requests of relay and vault: 8 MiB of content at the minimum rate of 4 KiB/s take 34 minutes. */
const UPLOAD_MILLISECONDS = 3_600_000

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
export interface StartParts extends Pick<ServerAppParts, 'identity' | 'log' | 'metrics' | 'draining'> {
  connections: Connections
  /** URLs of the servers. Each server adds its URL when it starts, in this order: auth, relay, vault. */
  serviceUrls: Map<ServerName, string>
  /** Name of the file that was loaded into the environment. */
  envFile: string | undefined
  /** Called with the URL of the page for users by the server that serves it. */
  onPage: (url: string) => void
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

/** Listens. Returns a function that serves the application once all URLs are known. @throws StartError */
export type StartServer = (env: ServerEnv, parts: StartParts) => Promise<() => Promise<void>>

/** Creates the start function of a server that stores content, from the function that builds its application. */
export function createContentStarter(build: (parts: ServerAppParts & Contents) => ServerApp): StartServer {
  return async (env, start) => {
    const engine = await openContentEngine(env, start.connections)
    const { store: contents, spool } = engine.contents
    const node = env.IPFS_API_URL === undefined ? undefined : createIpfsHttpNode(env.IPFS_API_URL)
    const contentParts = { contents, spool, node, usedPercent: engine.usedPercent }
    const { parts, serve } = await openServer(env, start, engine, contentParts)
    return () => serve(build({ ...parts, ...contentParts }))
  }
}

/**
 * Listens, and waits until database and Redis are available. Until then all requests except `/health` get 503.
 *
 * @param engine - closed when the server stops, and also if it cannot start
 * @returns `parts` for the application; `serve` answers requests with the application and logs the ready line
 * @throws StartError
 */
export async function openServer(
  env: ServerEnv,
  start: StartParts,
  engine: Engine,
  contentParts?: Contents
): Promise<{ parts: ServerAppParts; serve: (app: ServerApp) => Promise<void> }> {
  const { connections, identity, log, metrics, draining, serviceUrls, envFile, closeStack } = start
  closeStack.add(() => engine.close())
  const uploads = contentParts && { request: UPLOAD_MILLISECONDS }
  const perNetwork = env.TRUST_PROXY === false || env.TRUST_PROXY === 0
  const server = await listen(env.address, { maxConnections: env.MAX_CONNECTIONS, perNetwork, ...uploads })
  let app: ServerApp | undefined
  closeStack.add(async () => {
    await server.stop()
    const closed = app?.close()
    // Calls in flight are repeated after the next start.
    contentParts?.node?.close?.()
    await closed
    log.info({ event: 'stopped' }, 'the server has stopped')
  })
  const serviceUrl = env.SERVICE_URL ?? `http://localhost:${server.port}`
  serviceUrls.set(env.name, serviceUrl)
  const { sessions: store, dependencies } = engine
  const parts = { env, identity, serviceUrl, log, store, dependencies, metrics, draining, serviceUrls }
  server.serve(startingApp(parts))
  await connections.whenAvailable(({ name, variable }, reason) => {
    const engineName = name === 'redis' ? 'Redis' : 'the database'
    const sentence = `waiting for ${engineName} (${variable}): ${reason}`
    log.warn({ event: 'waiting', dependency: name, variable, reason, url: server.url }, sentence)
  })
  const serve = async (serverApp: ServerApp): Promise<void> => {
    app = serverApp
    server.serve(app.listener)
    await app.ready.catch((error: unknown) => {
      // A remote database or Redis may be temporarily unavailable. The server then runs, and `/ready` reports it.
      if (!connections.areRemote || getErrorCode(error) !== 'ERR_STORE') throw error
    })
    if (draining?.aborted === true) return
    const { serviceDid } = identity
    const node = env.IPFS_API_URL === undefined ? '' : ` and on IPFS ${new URL(env.IPFS_API_URL).host}`
    const content = contentParts && `local${node}`
    const [location, settings] = [content && `, content: ${content}`, envFile && `, settings from ${envFile}`]
    const ready = { event: 'ready', url: server.url, serviceUrl, serviceDid, content, envFile }
    writeLine(log, ready, `ready at ${serviceUrl} as ${serviceDid}${location ?? ''}${settings ?? ''}`)
  }
  return { parts, serve }
}
