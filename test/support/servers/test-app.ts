import express, { type Express } from 'express'
import {
  es256kSigner,
  memoryStore,
  setupDidAuth,
  type DidAuthConfig,
  type RequireDid,
  type ResourceKey,
  type Store
} from 'express-did-auth'
import { createECDH } from 'node:crypto'
import type { ServerEnv } from '../../../servers/config/read-env.js'
import type { ServerApp, ServerAppParts } from '../../../servers/http/create-app.js'
import type { Metrics } from '../../../servers/observability/metrics.js'
import { captureLog } from '../fixtures/captured-log.js'
import { appClient, type AppClient } from './app-client.js'
import { setupByFetch } from './fetch-transport.js'
import { challengeSecret, serviceWallet, TestClock } from '../fixtures/fixtures.js'

export const serviceUrl = 'https://service.example'

/** Returns the private JWK of a number, which is the same in every run. */
export function resourceKey(number: number): Required<ResourceKey> {
  const secret = Buffer.alloc(32, number)
  const pair = createECDH('prime256v1')
  pair.setPrivateKey(secret)
  const point = pair.getPublicKey()
  const [x = '', y = '', d = ''] = [point.subarray(1, 33), point.subarray(33), secret].map((part) =>
    part.toString('base64url')
  )
  return { kty: 'EC', crv: 'P-256', x, y, d }
}

export interface LogLine {
  level: 'info' | 'warn' | 'error'
  fields: Record<string, unknown>
  message: string
}

/** Application with the routes of this package, a guarded `GET /me`, a client, a clock and a log. */
export interface TestApp extends AppClient {
  app: Express
  requireDid: RequireDid
  clock: TestClock
  log: LogLine[]
}

/** Parts of the application around the routes of this package. */
export interface Host {
  /** Runs before this package's routes are set up: the host's parsers and middleware. */
  before?: (app: Express) => void
  /** Runs after them: the host's own routes and error handlers. */
  after?: (app: Express, requireDid: RequireDid) => void
  /** Mounts this package's routes, and `GET /me`, on a router under this path. */
  prefix?: string
}

/** Whether the project of Jest runs the tests by the adapter for the Fetch API, see .config/jest.config.js. */
const isFetch = 'didAuthAdapter' in globalThis
const setUp = isFetch ? setupByFetch : setupDidAuth

/** Sets up the library in a new application, by the adapter that the project of Jest tests. */
export async function testApp(config: Partial<DidAuthConfig> = {}, host: Host = {}): Promise<TestApp> {
  const clock = new TestClock()
  const log: LogLine[] = []
  const write =
    (level: LogLine['level']) =>
    (fields: Record<string, unknown>, message: string): void => {
      log.push({ level, fields, message })
    }
  const app = express()
  host.before?.(app)
  const router = host.prefix === undefined ? app : express.Router()
  if (host.prefix !== undefined) app.use(host.prefix, router)
  const requireDid = setUp(router, {
    challengeSecret,
    serviceUrl,
    serviceDid: serviceWallet.did,
    serviceSigner: es256kSigner(serviceWallet.privateKey),
    clock,
    logger: { info: write('info'), warn: write('warn'), error: write('error') },
    ...config
  })
  router.get('/me', requireDid, (req, res) => {
    res.json({ user: req.user, auth: req.auth })
  })
  host.after?.(app, requireDid)
  await requireDid.ready
  return { ...appClient(app), app, requireDid, clock, log }
}

/** Server without a socket, its settings and its log. */
export interface TestServer extends ServerApp {
  env: ServerEnv
  log: () => Record<string, unknown>[]
}

/**
 * Builds one of the servers from an environment, even if its signer or store fails. Modules that only servers need are
 * loaded here. Most tests are about the library, and each test file loads its modules again.
 *
 * @param build - creates the server from the parts that all servers have in common
 */
export async function testServer(
  name: ServerEnv['name'],
  variables: Record<string, string>,
  store: Store,
  build: (shell: ServerAppParts) => ServerApp
): Promise<TestServer> {
  const { readEnv } = await import('../../../servers/config/read-env.js')
  const { createDependencies } = await import('../../../servers/content/engine.js')
  const { createServerLog } = await import('../../../servers/observability/logger.js')
  const env = readEnv(variables, name, false)
  const { destination, log } = captureLog()
  const identity = {
    serviceDid: env.SERVICE_DID ?? serviceWallet.did,
    privateKey: serviceWallet.privateKey,
    challengeSecret,
    resourceKeys: [resourceKey(1)]
  }
  const dependencies = createDependencies(env, {}, { durable: store })
  const shell = { env, identity, serviceUrl: `https://${name}.example`, store, dependencies }
  const server = build({ ...shell, log: createServerLog(env, false, destination) })
  await server.ready.catch(() => undefined)
  return { ...server, env, log }
}

/** Builds the auth server from an environment, in memory unless a store is given. */
export async function testAuthServer(
  variables: Record<string, string> = {},
  { store = memoryStore(), metrics }: { store?: Store; metrics?: Metrics } = {}
): Promise<TestServer> {
  const { createAuthApp } = await import('../../../servers/auth/app.js')
  return testServer('auth', variables, store, (shell) => createAuthApp({ ...shell, metrics }))
}

/** Verb that every store has. */
export type StoreVerb = Exclude<keyof Store, 'listEndedSessions'>

/** Creates a memory store in which one verb fails while `state.isBroken`. */
export function breakableStore(verb: StoreVerb): { store: Store; state: { isBroken: boolean } } {
  const store = memoryStore()
  const callVerb = store[verb].bind(store) as (...args: unknown[]) => Promise<unknown>
  const state = { isBroken: false }
  Object.assign(store, {
    [verb]: async (...args: unknown[]) => {
      if (state.isBroken) throw new Error('connection refused by 10.0.0.7')
      return callVerb(...args)
    }
  })
  return { store, state }
}
