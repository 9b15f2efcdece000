import request from 'supertest'
import { memoryStore, type Store } from 'express-did-auth'
import { chooseSqliteEngine, openSqliteConnection, type SqliteConnection } from 'express-did-auth/server-kit'
import { join } from 'node:path'
import { readEnv, type ServerName } from '../../../servers/config/read-env.js'
import type { Identity } from '../../../servers/config/service-identity.js'
import type { ServerApp } from '../../../servers/http/create-app.js'
import type { IpfsNode } from '../../../servers/ipfs/ipfs-node.js'
import { createServerLog } from '../../../servers/observability/logger.js'
import type { Metrics } from '../../../servers/observability/metrics.js'
import { createDependencies } from '../../../servers/content/engine.js'
import type { OpenContentStore } from '../../../servers/content/sql/sql-content-store.js'
import { openContentStore } from '../../../servers/content/sql/open-sqlite-contents.js'
import { runReconcile } from '../../../servers/tools/reconcile.js'
import { createTakedownCommand } from '../../../servers/tools/takedown.js'
import { createVaultApp } from '../../../servers/vault/app.js'
import { captureLog } from '../fixtures/captured-log.js'
import { runCommand } from './command-line.js'
import { createEntry } from './content-stores.js'
import { temporaryFolder } from '../fixtures/store-folder.js'
import {
  challengeSecret,
  createLoginText,
  createNumberedWallet,
  serviceWallet,
  type TestWallet
} from '../fixtures/fixtures.js'

export const serviceUrl = 'https://vault.example'

/** Parts that a test replaces. */
export interface VaultTestParts {
  store?: Store
  node?: IpfsNode
  usedPercent?: () => Promise<number>
  metrics?: Metrics
  /** Open storage. Default: SQLite in a new folder. */
  contents?: OpenContentStore
  serviceUrls?: ReadonlyMap<ServerName, string>
  listenUrls?: ReadonlyMap<ServerName, string>
  identity?: Partial<Identity>
  /** Folder that this vault shares with another one. Default: a new folder. */
  folder?: string
}

/** Vault server without a socket, its storage and its log. */
export interface TestVault extends ServerApp, OpenContentStore {
  folder: string
  log: () => Record<string, unknown>[]
}

/** Builds the vault server from an environment, with sessions in memory unless a store is given. */
export async function testVault(env: Record<string, string> = {}, parts: VaultTestParts = {}): Promise<TestVault> {
  // The clock is real, and the challenge window a day: a window ends during a test only at midnight (UTC).
  const defaults = { MAX_REQUESTS_PER_TIME_SLOT: '1000000', CHALLENGE_EXPIRATION_TIME_IN_SECONDS: '86400' }
  const serverEnv = readEnv({ ...defaults, ...env }, 'vault', false)
  const { destination, log } = captureLog()
  const { path, remove } = parts.folder === undefined ? temporaryFolder() : { path: parts.folder, remove: undefined }
  const { node, store = memoryStore(), usedPercent = () => Promise.resolve(50) } = parts
  const tracksPins = node !== undefined
  const opened = parts.contents ?? (await openContentStore({ folder: path, database: 'vault.db', tracksPins }))
  const server = createVaultApp({
    env: serverEnv,
    identity: {
      serviceDid: serverEnv.SERVICE_DID ?? serviceWallet.did,
      privateKey: serviceWallet.privateKey,
      challengeSecret,
      ...parts.identity
    },
    serviceUrl,
    serviceUrls: parts.serviceUrls,
    listenUrls: parts.listenUrls,
    store,
    dependencies: createDependencies(serverEnv, {}, { durable: store, contents: opened.store }),
    contents: opened.store,
    spool: opened.spool,
    node,
    usedPercent,
    metrics: parts.metrics,
    log: createServerLog(serverEnv, false, destination)
  })
  await server.ready.catch(() => undefined)
  const close = async (): Promise<void> => {
    await server.close()
    await opened.store.close()
    remove?.()
  }
  return { ...server, ...opened, folder: path, log, close }
}

type Listener = ServerApp['listener']

/** Logs in a wallet over HTTP, and returns its access token. */
export async function logInAt(listener: Listener, wallet: TestWallet, did = wallet.did): Promise<string> {
  const { body } = await request(listener).post('/request-auth').send({ did }).expect(200)
  const sig = wallet.personalSign(createLoginText('vault.example', (body as { challenge: string }).challenge))
  const answer = await request(listener).post('/auth').send({ did, sig }).expect(200)
  return (answer.body as { accessToken: string }).accessToken
}

let lastWallet = 100_000

/** Creates a wallet that no other test uses. */
export function createWallet(): TestWallet {
  return createNumberedWallet((lastWallet += 1))
}

/** User who is logged in to the vault. Each method sends one request. Keys and ids are put into the path unchanged. */
export class VaultUser {
  readonly did: string
  readonly #listener: Listener
  /** `Authorization` header of every request of this user. */
  readonly authorization: string

  constructor(listener: Listener, did: string, accessToken: string) {
    this.#listener = listener
    this.did = did
    this.authorization = `DIDAuth ${accessToken}`
  }

  static async logIn(listener: Listener, wallet: TestWallet, did = wallet.did): Promise<VaultUser> {
    return new VaultUser(listener, did, await logInAt(listener, wallet, did))
  }

  /** Logs in a new user, so that tests may share a vault. */
  static async new({ listener }: ServerApp): Promise<VaultUser> {
    return VaultUser.logIn(listener, createWallet())
  }

  post(path: string, content: unknown): request.Test {
    return this.#set(request(this.#listener).post(`/${path}`)).send({ content })
  }

  put(path: string, content: unknown): request.Test {
    return this.#set(request(this.#listener).put(`/${path}`)).send({ content })
  }

  delete(path: string): request.Test {
    return this.#set(request(this.#listener).delete(`/${path}`))
  }

  /** Requests a route that requires authentication. */
  get(path: string): request.Test {
    return this.#set(request(this.#listener).get(`/${path}`))
  }

  /** Reads a key of this user without authentication. */
  read(key: string): request.Test {
    return request(this.#listener).get(`/${this.did}/${key}`)
  }

  head(key: string): request.Test {
    return request(this.#listener).head(`/${this.did}/${key}`)
  }

  #set(test: request.Test): request.Test {
    return test.set('Authorization', this.authorization)
  }
}

/** Opens the database of a vault, to inspect or damage it. The caller must close it. */
export function openDatabase(file: string): SqliteConnection {
  return openSqliteConnection(file, chooseSqliteEngine(), { synchronous: 'FULL', busyMilliseconds: 5_000 })
}

/** Changes or damages the database of a vault. */
export function changeDatabase(vault: Pick<TestVault, 'folder'>, sql: string): void {
  const database = openDatabase(getDatabase(vault))
  database.exec(sql)
  database.close()
}

export const getDatabase = ({ folder }: Pick<TestVault, 'folder'>): string => join(folder, 'vault.db')

/** Adds entries like the vault, in this order and without HTTP. */
export async function fillVault(
  { store }: Pick<TestVault, 'store'>,
  did: string,
  entries: readonly (readonly [key: string, content: string])[]
): Promise<void> {
  const small: Promise<unknown>[] = []
  for (const [key, content] of entries) {
    const write = store.writeEntry(
      createEntry(key, content, { did, quota: { maxBytes: Infinity, maxEntries: Infinity } })
    )
    // Small contents share a commit, in the order of their calls. Large ones are uploaded first, and would overtake
    // each other if they were not awaited.
    if (content.length > 60_000) await write
    else small.push(write)
  }
  await Promise.all(small)
}

/** Runs `express-did-auth vault …` in this process, and returns its exit code and report. */
export async function runVault(
  [command = '', ...args]: readonly string[],
  env: Record<string, string>
): Promise<{ code: number; lines: string[] }> {
  return runCommand(command === 'takedown' ? createTakedownCommand('vault') : runReconcile, args, env)
}

/** Returns the faults that `vault reconcile --dry-run` finds; empty: there are none. */
export async function findVaultFaults(env: Record<string, string>): Promise<string[]> {
  const { code, lines } = await runVault(['reconcile', '--dry-run'], env)
  return code === 0 ? lines.filter((line) => line.startsWith('open: ') && line !== 'open: no pins') : lines
}
