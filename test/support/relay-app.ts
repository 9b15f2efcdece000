import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { sqliteStore } from 'express-did-auth/stores/sqlite'
import type { Store } from 'express-did-auth'
import request, { type Response } from 'supertest'
import { relayApp } from '../../servers/relay/app.js'
import { EmbeddedFileStore } from '../../servers/relay/embedded-file-store.js'
import type { FileStore } from '../../servers/relay/file-store.js'
import type { ServerApp } from '../../servers/shared/http/app-shell.js'
import { openDatabase, type SqliteFile } from '../../servers/shared/content/database.js'
import { jsonLog } from '../../servers/shared/watch/json-log.js'
import { readEnv, type ServerEnv } from '../../servers/shared/environment/read-env.js'
import type { IpfsNode } from '../../servers/shared/ipfs/ipfs-node.js'
import { loginCredential } from './relay-login.js'
import { walletOf, type TestWallet } from './wallet.js'

export { loginCredential, loginPayload } from './relay-login.js'

/** When a test begins, in seconds: far from the real time, so that nobody reads the real clock unseen. */
export const START_SECONDS = 1_800_000_000
export const serviceUrl = 'https://relay.example'
/** The service's key: wallet number 7777. */
export const serviceWallet = walletOf(7777)
export const challengeSecret = 'a secret of the tests, longer than 32 bytes'

/** Time as the test says. */
export class TestClock {
  seconds = START_SECONDS
  nowSeconds(): number {
    return this.seconds
  }
}

/** A relay without a socket, its clock, its database, and the log that it writes. */
export interface TestRelay extends ServerApp {
  env: ServerEnv
  clock: TestClock
  database: SqliteFile
  log: () => Record<string, unknown>[]
  /** Closes everything and removes its files. */
  end(): Promise<void>
}

export interface TestRelayOptions {
  /** Makes the store of files; by default the embedded one. */
  files?: (database: SqliteFile, env: ServerEnv) => FileStore
  store?: Store
  node?: IpfsNode
  clock?: TestClock
  challengeSecret?: string
  /** A folder to work in, which is left there at the end. */
  folder?: string
}

/** Builds a relay from an environment. */
export async function startTestRelay(
  variables: Record<string, string> = {},
  options: TestRelayOptions = {}
): Promise<TestRelay> {
  const env = readEnv(variables, 'relay', false)
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'did-auth-relay-'))
  const database = openDatabase(join(folder, 'relay.db'))
  const embedded = (): FileStore =>
    new EmbeddedFileStore(database, { ttlSeconds: env.RELAY_STORE_TTL_SECONDS, maxBytes: env.RELAY_MAX_STORE_BYTES })
  const files = options.files?.(database, env) ?? embedded()
  const store = options.store ?? sqliteStore(join(folder, 'auth.db'))
  const clock = options.clock ?? new TestClock()
  let text = ''
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text += chunk.toString()
      done()
    }
  })
  const app = relayApp({
    env,
    identity: {
      serviceDid: env.SERVICE_DID ?? serviceWallet.did,
      privateKey: serviceWallet.privateKey,
      challengeSecret: options.challengeSecret ?? challengeSecret
    },
    serviceUrl,
    store,
    files,
    log: jsonLog(env, destination),
    clock,
    node: options.node
  })
  await app.ready
  return {
    ...app,
    env,
    clock,
    database,
    log: () =>
      text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as Record<string, unknown>),
    end: async () => {
      await app.close()
      await store.close()
      database.close()
      if (options.folder === undefined) rmSync(folder, { recursive: true, force: true })
    }
  }
}

export async function requestChallenge({ listener }: ServerApp, did: string): Promise<string> {
  const { body } = await request(listener).post('/request-auth').send({ did }).expect(200)
  return (body as { challenge: string }).challenge
}

/** Logs a wallet in and answers its token. */
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
