import type { Express, Request, Response } from 'express'
import { DidAuthError } from 'express-did-auth'
import { MAX_CREDENTIAL_BYTES } from 'express-did-auth/protocol'
import { type BodyReader, JSON_TYPE, readBytes } from '../http/read-body.js'
import { ServerError, type SendError } from '../http/server-error.js'
import { type FileCache, sendFile } from './file-cache.js'
import type { FileRelay } from './file-relay.js'
import type { LoginRequest, RelayAuth } from './relay-auth.js'
import { RELAY_CHALLENGE_SECONDS } from './relay-challenge.js'

const MAX_BODY_BYTES = MAX_CREDENTIAL_BYTES + 4_096
const UTF_8 = new TextDecoder('utf-8', { fatal: true })

/** First segments of the routes, by which log and metrics name requests. */
export const relayRouteNames: readonly string[] = ['/request-auth', '/auth', '/file']

export interface RouteParts {
  auth: RelayAuth
  relay: FileRelay
  cache: FileCache
  bodies: BodyReader
  maxFileBytes: number
  sendError: SendError
}

/** The fields of a small JSON body. */
type Fields = ReadonlyMap<string, unknown>

type Answer = (req: Request, res: Response) => Promise<void>

/**
 * Puts the routes of the relay on an application.
 *
 * @see specification, "Endpoints", "Component B"
 */
export function addRelayRoutes(
  app: Express,
  { auth, relay, cache, bodies, maxFileBytes, sendError }: RouteParts
): void {
  const requestAuth: Answer = async (req, res) => {
    const challenge = auth.requestChallenge(textIn(await readFields(req), 'did'))
    sendJson(res, { challenge }, { 'Challenge-Expires-In': String(RELAY_CHALLENGE_SECONDS) })
  }

  const logIn: Answer = async (req, res) => {
    sendJson(res, { token: await auth.logIn(parseLogin(await readFields(req))) })
  }

  const postFile: Answer = async (req, res) => {
    const did = await auth.authenticate(req.headers.authorization)
    const body = { field: 'file', maxBytes: maxFileBytes, owner: did }
    const file = await bodies.read(req, body, (content) => relay.post(did, content))
    const isPinned = await relay.isPinned(file.cid)
    sendJson(res, file, {
      'File-Expires-In': String(relay.ttlSeconds),
      ...(!isPinned && { 'Pin-Status': 'pending' })
    })
  }

  const getFile: Answer = async (req, res) => {
    await auth.authenticate(req.headers.authorization)
    await sendFile(req, res, await relay.find(req.path.slice(1)), cache)
  }

  const run = (answer: Answer, req: Request, res: Response): void => {
    answer(req, res).catch((error: unknown) => {
      sendError(req, res, error)
    })
  }
  app.post('/request-auth', (req, res) => {
    run(requestAuth, req, res)
  })
  app.post('/auth', (req, res) => {
    run(logIn, req, res)
  })
  app.post('/file', (req, res) => {
    run(postFile, req, res)
  })
  // Without a parameter: what Express cannot decode is not there, and no bad request.
  app.use('/file', (req, res, next) => {
    if (req.method === 'GET' || req.method === 'HEAD') run(getFile, req, res)
    else next()
  })
}

/**
 * What a login shows: a credential, or a signature. A body with both is refused, because they may name two users.
 *
 * @throws ServerError ERR_INVALID_REQUEST
 */
function parseLogin(fields: Fields): LoginRequest {
  if (!fields.has('sig')) return { jwt: textIn(fields, 'jwt') }
  if (fields.has('jwt')) throw new ServerError('ERR_INVALID_REQUEST')
  const login = { did: textIn(fields, 'did'), sig: textIn(fields, 'sig') }
  return fields.has('challenge') ? { ...login, challenge: textIn(fields, 'challenge') } : login
}

/** A text leaves together with the headers, where bytes would be a write of their own. */
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

/**
 * Reads the fields of a small JSON body. An absent body, and one that is no JSON object, count as `{}`.
 *
 * @throws DidAuthError ERR_JSON, ERR_TOO_LARGE
 */
async function readFields(req: Request): Promise<Fields> {
  const isJson = JSON_TYPE.test(req.headers['content-type'] ?? '')
  const bytes = isJson ? await readBytes(req, MAX_BODY_BYTES, () => new DidAuthError('ERR_TOO_LARGE')) : Buffer.alloc(0)
  const body: unknown = bytes.length === 0 ? {} : parseJson(bytes)
  return new Map(typeof body === 'object' && body !== null ? Object.entries(body) : [])
}

/** The text in a field. @throws ServerError ERR_INVALID_REQUEST when there is none */
function textIn(fields: Fields, name: string): string {
  const value = fields.get(name)
  if (typeof value !== 'string') throw new ServerError('ERR_INVALID_REQUEST')
  return value
}

function parseJson(bytes: Buffer): unknown {
  try {
    return JSON.parse(UTF_8.decode(bytes))
  } catch {
    // Without the cause: a parser's message quotes the body.
    throw new DidAuthError('ERR_JSON')
  }
}
