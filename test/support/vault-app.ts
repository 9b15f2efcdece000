import { Writable } from 'node:stream'
import { MemoryStore, type Store } from 'express-did-auth'
import Database from 'better-sqlite3'
import request from 'supertest'
import { vaultApp } from '../../servers/vault/app.js'
import type { ServerApp } from '../../servers/shared/http/app-shell.js'
import type { SqliteFile } from '../../servers/shared/content/database.js'
import type { IpfsNode } from '../../servers/shared/ipfs/ipfs-node.js'
import { jsonLog } from '../../servers/shared/watch/json-log.js'
import { readEnv } from '../../servers/shared/environment/read-env.js'
import { loginText, walletOf, type TestWallet } from './wallet.js'

/** The service's key: wallet number 7777. */
export const serviceWallet = walletOf(7777)
export const serviceUrl = 'https://vault.example'

/** What a test puts in the place of the real thing. */
export interface VaultTestParts {
  store?: Store
  database?: SqliteFile
  node?: IpfsNode
  usedPercent?: () => Promise<number>
}

/** The vault server without a socket, its database, and the log that it writes. */
export interface TestVault extends ServerApp {
  database: SqliteFile
  log: () => Record<string, unknown>[]
}

/** Builds the vault server from an environment, in memory unless something else is given. */
export async function testVault(env: Record<string, string> = {}, parts: VaultTestParts = {}): Promise<TestVault> {
  const serverEnv = readEnv({ MAX_REQUESTS_PER_TIME_SLOT: '1000000', ...env }, 'vault', false)
  let text = ''
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text += chunk.toString()
      done()
    }
  })
  const database = parts.database ?? new Database(':memory:')
  const server = vaultApp({
    env: serverEnv,
    identity: {
      serviceDid: serverEnv.SERVICE_DID ?? serviceWallet.did,
      privateKey: serviceWallet.privateKey,
      challengeSecret: 'a secret of the tests, longer than 32 bytes'
    },
    serviceUrl,
    store: parts.store ?? new MemoryStore(),
    database,
    node: parts.node,
    usedPercent: parts.usedPercent ?? (() => Promise.resolve(50)),
    log: jsonLog(serverEnv, destination)
  })
  await server.ready.catch(() => undefined)
  const log = (): Record<string, unknown>[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  return { ...server, database, log }
}

type Listener = ServerApp['listener']

/** Logs a wallet in over HTTP. */
export async function logInAt(listener: Listener, wallet: TestWallet, did = wallet.did): Promise<string> {
  const { body } = await request(listener).post('/request-auth').send({ did }).expect(200)
  const sig = wallet.personalSign(loginText('vault.example', (body as { challenge: string }).challenge))
  const answer = await request(listener).post('/auth').send({ did, sig }).expect(200)
  return (answer.body as { accessToken: string }).accessToken
}

/** A user of the vault, logged in: each verb is one request. Keys and ids go into the path as they are. */
export class VaultUser {
  readonly did: string
  readonly #listener: Listener
  /** The header that every request of this user's carries. */
  readonly authorization: string

  constructor(listener: Listener, did: string, accessToken: string) {
    this.#listener = listener
    this.did = did
    this.authorization = `DIDAuth ${accessToken}`
  }

  static async logIn(listener: Listener, wallet: TestWallet, did = wallet.did): Promise<VaultUser> {
    return new VaultUser(listener, did, await logInAt(listener, wallet, did))
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

  /** One of the routes behind authentication. */
  get(path: string): request.Test {
    return this.#set(request(this.#listener).get(`/${path}`))
  }

  /** Reads a key of this user's, as anybody can. */
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

/** How many blocks of content are kept. */
export function blockCount({ database }: TestVault): number {
  return database.prepare<[], number>('SELECT count(*) FROM blocks').pluck().get() ?? 0
}
