import type { Express, Request, Response } from 'express'
import { MAX_CREDENTIAL_BYTES } from 'express-did-auth/protocol'
import { fieldOf, readBody, type Body, type Caller } from 'express-did-auth/server-kit'
import { answering } from '../http/create-app.js'
import type { BodyReader } from '../bodies/read-body.js'
import { sendWhole } from '../bodies/send-content.js'
import { ServerError } from '../http/server-error.js'
import type { FileRelay } from './file-relay.js'
import type { LoginRequest, RelayAuth } from './relay-auth.js'
import { RELAY_CHALLENGE_SECONDS } from './relay-challenge.js'

const MAX_BODY_BYTES = MAX_CREDENTIAL_BYTES + 4_096

/** First segments of the routes, by which log and metrics name requests. */
export const relayRouteNames: readonly string[] = ['/request-auth', '/auth', '/file']

export interface RouteParts {
  auth: RelayAuth
  relay: FileRelay
  bodies: BodyReader
  callerOf: (req: Request) => Caller
  maxFileBytes: number
}

type Answer = (req: Request, res: Response) => Promise<void>

/** Puts the routes of the relay on an application. @see specification, "Endpoints", "Component B" */
export function addRelayRoutes(app: Express, { auth, relay, bodies, callerOf, maxFileBytes }: RouteParts): void {
  const requestAuth: Answer = async (req, res) => {
    const challenge = auth.requestChallenge(textIn(await readBody(req, MAX_BODY_BYTES), 'did'))
    sendFresh(res, { challenge }, { 'Challenge-Expires-In': String(RELAY_CHALLENGE_SECONDS) })
  }

  const logIn: Answer = async (req, res) => {
    sendFresh(res, { token: await auth.logIn(parseLogin(await readBody(req, MAX_BODY_BYTES))) })
  }

  const postFile: Answer = async (req, res) => {
    const did = await auth.authenticate(req.headers.authorization)
    const cid = await bodies.read(req, { field: 'file', maxBytes: maxFileBytes, owner: did }, async (content) => {
      await relay.post(did, content)
      return content.cid
    })
    const pinStatus = (await relay.isPinned(cid)) ? {} : { 'Pin-Status': 'pending' }
    sendFresh(res, { url: `relay://${cid}`, cid }, { 'File-Expires-In': String(relay.ttlSeconds), ...pinStatus })
  }

  const getFile: Answer = async (req, res) => {
    await auth.admitRead(req.headers.authorization, () => callerOf(req))
    await relay.send(req, res, req.path.slice(1))
  }

  app.post('/request-auth', answering(requestAuth))
  app.post('/auth', answering(logIn))
  app.post('/file', answering(postFile))
  const get = answering(getFile)
  // Without a parameter: what Express cannot decode is not there, and no bad request.
  app.use('/file', (req, res, next) => {
    if (req.method === 'GET' || req.method === 'HEAD') get(req, res, next)
    else next()
  })
}

function sendFresh(res: Response, body: object, headers: Record<string, string> = {}): void {
  sendWhole(res, JSON.stringify(body), { 'Cache-Control': 'no-store', ...headers })
}

/** Either proof, not both: they may name two users. @throws ServerError ERR_INVALID_REQUEST */
function parseLogin(body: Body): LoginRequest {
  if (fieldOf(body, 'sig') === undefined) return { jwt: textIn(body, 'jwt') }
  if (fieldOf(body, 'jwt') !== undefined) throw new ServerError('ERR_INVALID_REQUEST')
  const login = { did: textIn(body, 'did'), sig: textIn(body, 'sig') }
  return fieldOf(body, 'challenge') === undefined ? login : { ...login, challenge: textIn(body, 'challenge') }
}

/** The text in a field. @throws ServerError ERR_INVALID_REQUEST when there is none */
function textIn(body: Body, name: string): string {
  const value = fieldOf(body, name)
  if (typeof value !== 'string') throw new ServerError('ERR_INVALID_REQUEST')
  return value
}
