import { Writable } from 'node:stream'
import { MemoryStore, type Store } from 'express-did-auth'
import { authApp } from '../../servers/auth/app.js'
import type { ServerApp } from '../../servers/shared/http/app-shell.js'
import { jsonLog } from '../../servers/shared/watch/json-log.js'
import type { Metrics } from '../../servers/shared/watch/metrics.js'
import { readEnv } from '../../servers/shared/environment/read-env.js'
import { walletOf } from './wallet.js'

/** The service's key: wallet number 7777. */
export const serviceWallet = walletOf(7777)
export const serviceUrl = 'https://auth.example'

/** The auth server without a socket, and the log that it writes. */
export interface TestServer extends ServerApp {
  log: () => Record<string, unknown>[]
}

/** Builds the auth server from an environment, in memory unless a store is given. */
export async function serverApp(
  env: Record<string, string> = {},
  { store = new MemoryStore(), metrics }: { store?: Store; metrics?: Metrics } = {}
): Promise<TestServer> {
  const serverEnv = readEnv(env, 'auth', false)
  let text = ''
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text += chunk.toString()
      done()
    }
  })
  const server = authApp({
    env: serverEnv,
    identity: {
      serviceDid: serverEnv.SERVICE_DID ?? serviceWallet.did,
      privateKey: serviceWallet.privateKey,
      challengeSecret: 'a secret of the tests, longer than 32 bytes'
    },
    serviceUrl,
    store,
    log: jsonLog(serverEnv, destination),
    metrics
  })
  await server.ready.catch(() => undefined)
  const log = (): Record<string, unknown>[] =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Record<string, unknown>)
  return { ...server, log }
}
