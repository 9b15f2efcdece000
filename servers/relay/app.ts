import { es256kSigner, type Clock, type Store } from 'express-did-auth'
import type { Request, RequestHandler, Response } from 'express'
import { appShell, sealed, type ServerApp, type ShellParts } from '../shared/app-shell.js'
import { challengeSecretOf, maxRequestsOf } from '../shared/did-auth.js'
import type { Dependency } from '../shared/readiness.js'
import { readText } from '../shared/read-text.js'
import { errorSender } from '../shared/server-error.js'
import { FileRelay } from './file-relay.js'
import type { FileStore } from './file-store.js'
import { MemoryFiles } from './memory-files.js'
import { readField } from './read-field.js'
import { RelayAuth } from './relay-auth.js'
import { RELAY_CHALLENGE_SECONDS } from './relay-challenge.js'
import { loadServiceKey } from './service-key.js'

/** What the relay is built of. */
export interface RelayParts extends ShellParts {
  /** For used challenges. */
  store: Store
  files: FileStore
  /** Of the IPFS node, where there is one. */
  dependencies?: readonly Dependency[]
  clock?: Clock
}

const DEFAULT_TIME_SLOT_SECONDS = 600
const ROUTES = ['/request-auth', '/auth', '/file']

const systemClock: Clock = { nowSeconds: () => Math.floor(Date.now() / 1000) }

/** Builds the relay. Both stores are their giver's to close. */
export function relayApp(parts: RelayParts): ServerApp {
  const { env, identity, serviceUrl, log, store, files, clock = systemClock } = parts
  const key = loadServiceKey(identity.privateKey)
  const auth = new RelayAuth({
    serviceUrl,
    serviceDid: identity.serviceDid,
    challengeSecret: challengeSecretOf(env, identity.challengeSecret),
    tokenSeconds: env.RELAY_TOKEN_EXPIRATION_TIME_IN_SECONDS,
    maxRequests: maxRequestsOf(env) ?? Infinity,
    timeSlotSeconds: env.TIME_SLOT_IN_SECONDS ?? DEFAULT_TIME_SLOT_SECONDS,
    key,
    store,
    clock
  })
  const relay = new FileRelay({
    maxBytesPerDid: env.RELAY_MAX_BYTES_PER_DID,
    fileTtlSeconds: env.RELAY_FILE_TTL_SECONDS,
    maxMemoryBytes: env.RELAY_MAX_MEMORY_BYTES,
    memory: new MemoryFiles({ maxBytes: env.RELAY_MAX_MEMORY_BYTES, ttlSeconds: env.RELAY_FILE_TTL_SECONDS }),
    store: files,
    clock
  })
  const signer = es256kSigner(identity.privateKey)
  const sendError = errorSender(serviceUrl, log)
  const answering =
    (answer: (req: Request, res: Response) => Promise<void>): RequestHandler =>
    (req, res) => {
      answer(req, res).catch((error: unknown) => {
        sendError(req, res, error)
      })
    }

  const app = appShell(parts, ROUTES, [
    { name: 'store', isNeeded: true, check: () => Promise.all([store.ping(), files.ping()]) },
    { name: 'signer', isNeeded: true, check: () => signer('ready?') },
    ...(parts.dependencies ?? [])
  ])
  app.post(
    '/request-auth',
    answering(async (req, res) => {
      const challenge = auth.requestChallenge(await readField(req, 'did'))
      sendJson(res, { challenge }, { 'Challenge-Expires-In': String(RELAY_CHALLENGE_SECONDS) })
    })
  )
  app.post(
    '/auth',
    answering(async (req, res) => {
      sendJson(res, { token: await auth.logIn(await readField(req, 'jwt')) })
    })
  )
  app.post(
    '/file',
    answering(async (req, res) => {
      const did = await auth.authenticate(req.headers.authorization)
      const text = await readText(req, 'file', env.RELAY_MAX_FILE_BYTES)
      sendJson(res, await relay.post(did, text))
    })
  )
  // No parameter: Express would answer what it cannot decode by itself.
  app.use('/file', (req, res, next) => {
    const isRead = req.method === 'GET' || req.method === 'HEAD'
    if (!isRead) {
      next()
      return
    }
    answering(async () => {
      await auth.authenticate(req.headers.authorization)
      sendFile(res, relay.find(req.path.slice(1)))
    })(req, res, next)
  })
  return {
    listener: sealed(app, log),
    ready: key.then(() => undefined),
    close: () => Promise.resolve()
  }
}

function sendJson(res: Response, body: object, headers: Record<string, string> = {}): void {
  const json = JSON.stringify(body)
  res.writeHead(200, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': Buffer.byteLength(json),
    'Cache-Control': 'no-store',
    ...headers
  })
  res.end(json)
}

function sendFile(res: Response, answer: Buffer): void {
  res.writeHead(200, {
    'Content-Type': 'application/json; charset=utf-8',
    'Content-Length': answer.length,
    'Cache-Control': 'no-store'
  })
  res.end(answer)
}
