import { es256kSigner, handleAsClient, type Clock } from 'express-did-auth'
import { MAX_CREDENTIAL_BYTES } from 'express-did-auth/protocol'
import { createCallerFinder, ExpressRequest, readBody, readField, systemClock } from 'express-did-auth/server-kit'
import type { Body } from 'express-did-auth/server-kit'
import type { Request, Response } from 'express'
import { sendWhole } from '../content/send-content.js'
import { asyncHandler, listReadableOrigins, createApp, addFallbacks } from '../http/create-app.js'
import type { ServerApp, ServerAppParts } from '../http/create-app.js'
import { createDidAuthDependencies, findTrustedIssuer, createIssuerDependencies } from '../http/did-auth.js'
import { ServerError } from '../http/server-error.js'
import { createIpfsDependency } from '../ipfs/ipfs-node.js'
import { serveDocument } from '../openapi/document.js'
import { startContentWork } from '../process/content-work.js'
import { openContentServer, type Contents, type ServerOpener } from '../process/start-server.js'
import { createDiskBound, createStoreBound } from '../content/disk-space.js'
import { createFileRelay } from './file-relay.js'
import { loadServiceKey, RELAY_CHALLENGE_SECONDS, createRelayAuth, type LoginRequest } from './relay-auth.js'

/** Parts of the relay. */
export interface RelayParts extends ServerAppParts, Contents {
  clock?: Clock
}

/** First path segments of the routes, as log and metrics name them. */
const ROUTE_NAMES: readonly string[] = ['/request-auth', '/auth', '/file']
const MAX_BODY_BYTES = MAX_CREDENTIAL_BYTES + 4_096
/** Fill level of the store above which removed content is deleted even while clients may be reading it. */
const NEARLY_FULL = 0.9

type Handler = (req: Request, res: Response) => Promise<void>

const readJson = (req: Request): Promise<Body> => readBody(new ExpressRequest(req), MAX_BODY_BYTES)

/** Opens the storage of the relay. @throws StartError */
export const openRelay: ServerOpener = (env, connections) => openContentServer(env, connections, createRelayApp)

/** Builds the relay. The caller closes stores and IPFS node. @see specification, "Endpoints", "Component B" */
export function createRelayApp(parts: RelayParts): ServerApp {
  const { env, identity, serviceUrl, contents, node, clock = systemClock } = parts
  const signer = es256kSigner(identity.privateKey)
  // The relay resolves no DIDs, so an RPC node is not among its dependencies.
  const loginDependencies = [
    ...createDidAuthDependencies(signer),
    ...createIssuerDependencies(findTrustedIssuer(parts))
  ]
  const app = createApp(parts, ROUTE_NAMES, [...loginDependencies, createIpfsDependency(node)])
  app.use(handleAsClient)

  const key = loadServiceKey(identity)
  const auth = createRelayAuth({ ...parts, key, signer, clock })
  const collect = (options?: { isFull: boolean }): Promise<void> => contents.collectGarbage(clock.nowSeconds(), options)
  const work = startContentWork(parts, clock, 'sweep', async (signal) => {
    while (!signal.aborted && (await contents.deleteExpiredFiles(clock.nowSeconds())));
    await collect({ isFull: (await contents.storedBytes()) > NEARLY_FULL * env.RELAY_MAX_STORE_BYTES })
  })
  const assertDiskFree = createStoreBound(createDiskBound(parts.usedPercent), collect)
  const relay = createFileRelay({ ...work, store: contents, assertDiskFree, env, clock })
  app.get('/openapi.json', serveDocument('relay', serviceUrl))
  const findCaller = createCallerFinder(new Set([...env.TRUSTED_ORIGINS, ...listReadableOrigins(parts)]), parts.log)

  const requestAuth: Handler = async (req, res) => {
    const challenge = auth.requestChallenge(requireText(await readJson(req), 'did'))
    sendUncached(res, { challenge }, { 'Challenge-Expires-In': String(RELAY_CHALLENGE_SECONDS) })
  }

  const logIn: Handler = async (req, res) => {
    sendUncached(res, { token: await auth.logIn(parseLogin(await readJson(req))) })
  }

  const postFile: Handler = async (req, res) => {
    const did = await auth.authenticate(req.headers.authorization)
    const { cid, isPinned } = await relay.post(req, did)
    const headers = { 'File-Expires-In': String(env.RELAY_FILE_TTL_SECONDS) }
    sendUncached(res, { url: `relay://${cid}`, cid }, isPinned ? headers : { ...headers, 'Pin-Status': 'pending' })
  }

  const getFile: Handler = async (req, res) => {
    await auth.admitRead(req.headers.authorization, () => findCaller(new ExpressRequest(req)))
    await relay.send(res, req.path.slice(1))
  }

  app.post('/request-auth', asyncHandler(requestAuth))
  app.post('/auth', asyncHandler(logIn))
  app.post('/file', asyncHandler(postFile))
  const handleGet = asyncHandler(getFile)
  // The route has no parameter, so that a path that Express cannot decode gets 404 instead of 400.
  app.use('/file', (req, res, next) => {
    if (req.method === 'GET' || req.method === 'HEAD') handleGet(req, res, next)
    else next()
  })
  return { listener: addFallbacks(app, parts), ready: key.then(() => undefined), close: work.stop }
}

function sendUncached(res: Response, body: object, headers: Record<string, string> = {}): void {
  sendWhole(res, JSON.stringify(body), { 'Cache-Control': 'no-store', ...headers })
}

/** Parses a login. Two proofs are refused: they may name two users. @throws ServerError ERR_INVALID_REQUEST */
function parseLogin(body: Body): LoginRequest {
  if (readField(body, 'sig') === undefined) return { jwt: requireText(body, 'jwt') }
  if (readField(body, 'jwt') !== undefined) throw new ServerError('ERR_INVALID_REQUEST')
  const login = { did: requireText(body, 'did'), sig: requireText(body, 'sig') }
  return readField(body, 'challenge') === undefined ? login : { ...login, challenge: requireText(body, 'challenge') }
}

/** Returns the text of a field. @throws ServerError ERR_INVALID_REQUEST if it is missing or not a string */
function requireText(body: Body, name: string): string {
  const value = readField(body, name)
  if (typeof value !== 'string') throw new ServerError('ERR_INVALID_REQUEST')
  return value
}
