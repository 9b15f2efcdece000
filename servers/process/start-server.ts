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

/** Relay and vault receive content: 8 MiB at the minimum data rate of 4 KiB/s are 34 minutes. */
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

/** Dependencies of the start of a server. */
export interface StartParts extends Pick<ServerAppParts, 'identity' | 'log' | 'metrics' | 'draining'> {
  connections: Connections
  /** URLs of the servers. Each server adds its own when it starts, in this order: auth, relay, vault. */
  serviceUrls: Map<ServerName, string>
  /** File that was loaded into the environment. */
  envFile: string | undefined
  /** Called by the server that has a page for users. */
  onPage: (url: string) => void
  closeStack: CloseStack
}

/** Storage of relay and vault in addition to sessions. */
export interface Contents {
  contents: OpenContentStore['store']
  /** Files for bodies that are arriving. */
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
    const own = { contents, spool, node, usedPercent: engine.usedPercent }
    const { parts, serve } = await openServer(env, start, engine, own)
    return () => serve(build({ ...parts, ...own }))
  }
}

/**
 * Listens, and waits until database and Redis answer: meanwhile all requests but `/health` and `/ready` are 503.
 *
 * @param engine - closed when the server ends, and also when it cannot start
 * @returns what its application is built of; `serve` answers requests by it, and logs one line when it can be used
 * @throws StartError
 */
export async function openServer(
  env: ServerEnv,
  start: StartParts,
  engine: Engine,
  own?: Contents
): Promise<{ parts: ServerAppParts; serve: (app: ServerApp) => Promise<void> }> {
  const { connections, identity, log, metrics, draining, serviceUrls, envFile, closeStack } = start
  closeStack.add(() => engine.close())
  const uploads = own && { request: UPLOAD_MILLISECONDS }
  const perNetwork = env.TRUST_PROXY === false || env.TRUST_PROXY === 0
  const server = await listen(env.address, { maxConnections: env.MAX_CONNECTIONS, perNetwork, ...uploads })
  let app: ServerApp | undefined
  closeStack.add(async () => {
    await server.stop()
    const closed = app?.close()
    // Calls under way are made again after the next start.
    own?.node?.close?.()
    await closed
    log.info({ event: 'stopped' }, 'stopped')
  })
  const serviceUrl = env.SERVICE_URL ?? `http://localhost:${server.port}`
  serviceUrls.set(env.name, serviceUrl)
  const { sessions: store, dependencies } = engine
  const parts = { env, identity, serviceUrl, log, store, dependencies, metrics, draining, serviceUrls }
  server.serve(startingApp(parts))
  await connections.whenAvailable(({ name, variable }, reason) => {
    const sentence = `waiting for ${name === 'redis' ? 'Redis' : 'the database'} (${variable}): ${reason}`
    log.warn({ event: 'waiting', dependency: name, variable, reason, url: server.url }, sentence)
  })
  const serve = async (built: ServerApp): Promise<void> => {
    app = built
    server.serve(app.listener)
    await app.ready.catch((error: unknown) => {
      // A database or a Redis elsewhere may be unavailable again: the server runs, and `/ready` says what it lacks.
      if (!connections.areRemote || getErrorCode(error) !== 'ERR_STORE') throw error
    })
    if (draining?.aborted === true) return
    const { serviceDid } = identity
    const node = env.IPFS_API_URL === undefined ? '' : ` and on IPFS ${new URL(env.IPFS_API_URL).host}`
    const content = own && `here${node}`
    const [where, settings] = [content && `, content: ${content}`, envFile && `, settings of ${envFile}`]
    const ready = { event: 'ready', url: server.url, serviceUrl, serviceDid, content, envFile }
    writeLine(log, ready, `ready at ${serviceUrl} as ${serviceDid}${where ?? ''}${settings ?? ''}`)
  }
  return { parts, serve }
}
