import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { memoryStore, type Store } from 'express-did-auth'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import request, { type Response } from 'supertest'
import { readEnv, type ServerEnv, type ServerName } from '../../../servers/config/read-env.js'
import type { Identity } from '../../../servers/config/service-identity.js'
import type { ServerApp } from '../../../servers/http/create-app.js'
import type { IpfsNode } from '../../../servers/ipfs/ipfs-node.js'
import { createServerLog } from '../../../servers/observability/logger.js'
import type { Metrics } from '../../../servers/observability/metrics.js'
import { createRelayApp } from '../../../servers/relay/app.js'
import { getDataFolder, createDependencies } from '../../../servers/content/engine.js'
import type { OpenContentStore } from '../../../servers/content/sql/sql-content-store.js'
import { openContentStore } from '../../../servers/content/sql/open-sqlite-contents.js'
import { captureLog } from '../fixtures/captured-log.js'
import { loginCredential } from './relay-client.js'
import { challengeSecret, serviceWallet, TestClock, type TestWallet } from '../fixtures/fixtures.js'

export { loginCredential, loginPayload } from './relay-client.js'

export const serviceUrl = 'https://relay.example'

export interface TestRelayOptions {
  store?: Store
  /** Default: {@link serviceUrl}. */
  serviceUrl?: string
  /** Whether sessions are in a file, as in production, if no store is given. */
  hasSessionFile?: boolean
  node?: IpfsNode
  clock?: TestClock
  serviceUrls?: ReadonlyMap<ServerName, string>
  listenUrls?: ReadonlyMap<ServerName, string>
  identity?: Partial<Identity>
  challengeSecret?: string
  previousServiceDids?: readonly string[]
  /** Value of DATA_DIR. This folder is not removed at the end. */
  folder?: string
  usedPercent?: () => Promise<number>
  metrics?: Metrics
}

/** Relay without a socket, its clock, its stores and its log. */
export interface TestRelay extends ServerApp {
  env: ServerEnv
  clock: TestClock
  contents: OpenContentStore['store']
  /** Value of DATA_DIR. */
  folder: string
  log: () => Record<string, unknown>[]
  /** Closes everything, and opens it again on the same folder. */
  restart(): Promise<void>
  /** Closes everything and removes its files. */
  end(): Promise<void>
}

/**
 * Builds a relay from an environment. By default, its sessions are in a store in memory, which `restart()` does not
 * replace.
 */
export async function startTestRelay(
  variables: Record<string, string> = {},
  options: TestRelayOptions = {}
): Promise<TestRelay> {
  const DATA_DIR = options.folder ?? mkdtempSync(join(tmpdir(), 'did-auth-relay-'))
  const env = readEnv({ DATA_DIR, ...variables }, 'relay', false)
  const clock = options.clock ?? new TestClock()
  const { destination, log } = captureLog()
  const memory = memoryStore()
  const open = async (): Promise<Pick<TestRelay, keyof ServerApp | 'contents'>> => {
    const { node, usedPercent = () => Promise.resolve(50) } = options
    const folder = getDataFolder(env)
    const { store: contents, spool } = await openContentStore({
      folder,
      database: 'relay.db',
      isDurable: false,
      tracksPins: node !== undefined,
      clock,
      monotonicSeconds: () => clock.seconds
    })
    const store = options.store ?? (options.hasSessionFile === true ? sqliteStore(join(folder, 'auth.db')) : memory)
    const identity = {
      previousServiceDids: options.previousServiceDids ?? [],
      serviceDid: env.SERVICE_DID ?? serviceWallet.did,
      privateKey: serviceWallet.privateKey,
      challengeSecret: options.challengeSecret ?? challengeSecret,
      ...options.identity
    }
    const dependencies = createDependencies(env, {}, { durable: store, contents })
    const { serviceUrls, listenUrls, metrics } = options
    const shell = {
      env,
      identity,
      serviceUrl: options.serviceUrl ?? serviceUrl,
      serviceUrls,
      listenUrls,
      metrics,
      log: createServerLog(env, false, destination),
      store,
      dependencies
    }
    const app = createRelayApp({ ...shell, contents, spool, node, usedPercent, clock })
    await app.ready
    const close = async (): Promise<void> => {
      await app.close()
      await Promise.all([store.close(), contents.close()])
    }
    return { ...app, contents, close }
  }
  const relay: TestRelay = {
    ...(await open()),
    env,
    clock,
    folder: DATA_DIR,
    log,
    restart: async () => {
      await relay.close()
      Object.assign(relay, await open())
    },
    end: async () => {
      await relay.close()
      if (options.folder === undefined) rmSync(DATA_DIR, { recursive: true, force: true })
    }
  }
  return relay
}

export async function requestChallenge({ listener }: ServerApp, did: string): Promise<string> {
  const { body } = await request(listener).post('/request-auth').send({ did }).expect(200)
  return (body as { challenge: string }).challenge
}

/** Returns the user of a token. */
export function userOfToken(token: string): unknown {
  return (JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { sub: unknown }).sub
}

/** Logs in a wallet, and returns its token. */
export async function logIn(relay: ServerApp, wallet: TestWallet): Promise<string> {
  const jwt = loginCredential(wallet, await requestChallenge(relay, wallet.did))
  const { body } = await request(relay.listener).post('/auth').send({ jwt }).expect(200)
  return (body as { token: string }).token
}

export async function postFile({ listener }: ServerApp, token: string, file: unknown): Promise<Response> {
  return request(listener).post('/file').set('Authorization', token).send({ file })
}

export async function getFile({ listener }: ServerApp, token: string, cid: string): Promise<Response> {
  return request(listener).get(`/file/${cid}`).set('Authorization', token)
}
