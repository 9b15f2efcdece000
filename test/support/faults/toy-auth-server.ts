import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import express, { type ErrorRequestHandler, type Express, type Request, type Response } from 'express'
import { sha256, Signature, SigningKey } from 'ethers/crypto'
import { verifyMessage } from 'ethers/hash'
import { toUtf8Bytes } from 'ethers/utils'
import { serviceWallet, TestClock } from '../fixtures/fixtures.js'
import { sendToyNonce, verifyToyProof, type DeviceFault } from './toy-device-proofs.js'
import { addToyMachineLogin, type MachineFault } from './toy-machine-login.js'

/** Faults that the server can have. */
export type Fault =
  | DeviceFault
  | MachineFault
  | 'one challenge for all'
  | 'challenge that may be stored'
  | 'challenge good twice'
  | 'challenge consumed late'
  | 'any signature'
  | 'any domain'
  | 'high s'
  | '500 without sig'
  | 'stack for broken JSON'
  | 'HTML errors'
  | 'errors without realm'
  | 'no problem details'
  | 'tokens that may be stored'
  | 'tokens for a day'
  | 'sub in upper case'
  | 'alg none'
  | 'unverified tokens'
  | 'expired tokens'
  | 'tokens of the previous text'
  | 'same refresh token'
  | 'old refresh token'
  | 'refresh token replaced late'
  | 'repeat without key'
  | 'logout that keeps the session'
  | 'logout of all sessions'
  | 'credentials for every origin'
  | 'ended sessions never listed'
  | 'ended sessions listed by id'
  | 'list of another type'
  | 'list of another issuer'
  | 'list for another audience'
  | 'list for an hour'
  | 'list that another key signed'
  | 'list for own pages'
  | 'list for any after'
  | 'list without ETag'
  | 'list that is never unchanged'

interface ToySession {
  id: string
  did: string
  current: string
  /** All refresh tokens so far, so that an old one identifies the session. */
  tokens: Set<string>
  lastKey: string | undefined
  /** Thumbprint of the key of its device; undefined if it is not bound. */
  boundKey: string | undefined
}

/** Domain in the login message. */
export const toyDomain = 'toy.example'
const TOKEN_SECONDS = 600
/** Pause between check and use, if the fault has one. Simultaneous copies of a request arrive during it. */
const PAUSE_MILLISECONDS = 25
const PROBLEM = 'application/problem+json'

/**
 * Starts an independent implementation of the protocol, written from the specification, with an optional fault. It
 * shows that `conformance` finds faults in foreign servers.
 */
export function startToyAuthServer(fault?: Fault): { app: Express; clock: TestClock } {
  const clock = new TestClock()
  const sessions = new Set<ToySession>()
  const endedIds: string[] = []
  const challenges = new Map<string, string>()
  const key = new SigningKey(serviceWallet.privateKey)
  const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const decode = (part = ''): Record<string, unknown> => JSON.parse(Buffer.from(part, 'base64url').toString()) as never
  const signInput = (input: string): string => {
    const { r, s } = key.sign(sha256(toUtf8Bytes(input)))
    return Buffer.from(r.slice(2) + s.slice(2), 'hex').toString('base64url')
  }

  const refuse = (req: Request, res: Response, status: number, title: string): void => {
    const realm = fault === 'errors without realm' ? 'DIDAuth' : `DIDAuth realm="https://${toyDomain}"`
    if (status === 401) res.set('WWW-Authenticate', realm)
    res.status(status).set('X-Content-Type-Options', 'nosniff')
    const isProblem = req.get('accept') === PROBLEM && fault !== 'no problem details'
    if (isProblem) res.type(PROBLEM).send(JSON.stringify({ status, title, code: 'ERR_TOY' }))
    else res.type(fault === 'HTML errors' ? 'html' : 'text').send(title)
  }
  const createTokens = (session: ToySession): object => {
    const iat = clock.nowSeconds()
    const sub = fault === 'sub in upper case' ? session.did.toUpperCase() : session.did
    const times = { iat, nbf: iat, exp: iat + (fault === 'tokens for a day' ? 86_400 : TOKEN_SECONDS) }
    const cnf = session.boundKey === undefined ? {} : { cnf: { jkt: session.boundKey } }
    const claims = { iss: serviceWallet.did, aud: `https://${toyDomain}`, sub, ...times, sid: session.id, ...cnf }
    const input = `${encode({ alg: 'ES256K', typ: 'JWT' })}.${encode(claims)}`
    return { accessToken: `${input}.${signInput(input)}`, refreshToken: session.current }
  }
  const sendTokens = (res: Response, session: ToySession): void => {
    if (fault !== 'tokens that may be stored') res.set('Cache-Control', 'no-store')
    sendToyNonce(res, fault)
    res.json(createTokens(session))
  }
  const newToken = (session: ToySession, token = randomBytes(32).toString('hex')): void => {
    session.current = token
    session.tokens.add(token)
  }
  /** Verifies the proof of a request, and refuses the request if the proof is invalid. */
  const readProof = (req: Request, res: Response): string | undefined => {
    const boundKey = verifyToyProof(req, `https://${toyDomain}`, fault)
    if (boundKey === 'nonce') sendToyNonce(res, fault)
    if (boundKey !== undefined && boundKey !== 'nonce') return boundKey
    refuse(req, res, 401, 'Invalid device proof')
    return undefined
  }
  const readClaims = (req: Request): Record<string, unknown> | string => {
    const token = /^DIDAuth (\S+)$/i.exec(req.get('authorization') ?? '')?.[1]
    const [header, payload, signature] = token?.split('.') ?? []
    try {
      const isUnsigned = fault === 'alg none' && decode(header).alg === 'none'
      const isSigned = fault === 'unverified tokens' || signature === signInput(`${header!}.${payload!}`)
      if (!isUnsigned && !isSigned) return 'Invalid access token'
      const claims = decode(payload)
      const hasExpired = clock.nowSeconds() >= Number(claims.exp) && fault !== 'expired tokens'
      if (hasExpired) return fault === 'tokens of the previous text' ? 'Invalid access token' : 'Expired access token'
      return claims
    } catch {
      return 'Invalid access token'
    }
  }

  const answerChallenge = (flow: string) => (req: Request, res: Response) => {
    const did: unknown = req.method === 'GET' ? req.params.did : req.body?.did
    if (typeof did !== 'string' || !/^did:\w+:./.test(did)) {
      refuse(req, res, 401, 'Invalid DID')
      return
    }
    const flowAndDid = `${flow} ${did}`
    const challenge = fault === 'one challenge for all' ? '7'.repeat(64) : randomBytes(32).toString('hex')
    challenges.set(flowAndDid, challenges.get(flowAndDid) ?? challenge)
    if (fault !== 'challenge that may be stored') res.set('Cache-Control', 'no-store')
    sendToyNonce(res, fault)
    res.set('Challenge-Expires-In', '300').json({ challenge: challenges.get(flowAndDid) })
  }

  const isProved = (flow: string, { did, sig }: Record<string, unknown>): boolean => {
    const challenge = challenges.get(`${flow} ${String(did)}`)
    if (challenge === undefined || typeof sig !== 'string' || typeof did !== 'string') return false
    if (fault === 'any signature') return true
    const domains = fault === 'any domain' ? [toyDomain, 'other.example'] : [toyDomain]
    const texts = domains.map((domain) => `Login to ${domain}\nVerification code: ${challenge}`)
    const acceptedTexts = flow === 'signup' ? texts.flatMap((text) => [text, `${text}\nMy credentials are: `]) : texts
    try {
      const spelling = fault === 'high s' ? lowS(sig) : Signature.from(sig)
      return acceptedTexts.some((text) => did.toLowerCase().endsWith(verifyMessage(text, spelling).toLowerCase()))
    } catch {
      return false
    }
  }

  const logIn = (flow: string) => async (req: Request, res: Response) => {
    const { response, ...flat } = (req.body ?? {}) as Record<string, unknown>
    const proof = (response ?? flat) as Record<string, unknown>
    if (fault === '500 without sig' && proof.sig === undefined) throw new TypeError('sig is undefined')
    const flowAndDid = `${flow} ${String(proof.did)}`
    const hasBothForms = response !== undefined && Object.keys(flat).length > 0
    if (hasBothForms || !isProved(flow, proof)) {
      refuse(req, res, 401, 'Invalid challenge response')
      return
    }
    const hasProof = req.get('dpop') !== undefined && fault !== 'proof ignored at login'
    const boundKey = hasProof ? readProof(req, res) : undefined
    if (hasProof && boundKey === undefined) return
    if (fault === 'challenge consumed late') await pause(PAUSE_MILLISECONDS)
    if (fault !== 'challenge good twice') challenges.delete(flowAndDid)
    const session: ToySession = {
      id: randomBytes(8).toString('hex'),
      did: String(proof.did),
      current: '',
      tokens: new Set(),
      lastKey: undefined,
      boundKey
    }
    newToken(session)
    sessions.add(session)
    sendTokens(res, session)
  }

  const refresh = async (req: Request, res: Response) => {
    const token = String(req.body?.refreshToken)
    const idempotencyKey = req.get('idempotency-key')
    const session = [...sessions].find(({ tokens }) => tokens.has(token))
    const isCurrent = session?.current === token || fault === 'old refresh token'
    const isRepeat = idempotencyKey !== undefined && session?.lastKey === idempotencyKey
    if (session === undefined || (!isCurrent && !isRepeat)) {
      refuse(req, res, 401, 'Invalid refresh token')
      return
    }
    if (session.boundKey !== undefined && fault !== 'refresh from any device') {
      const presentedKey = readProof(req, res)
      if (presentedKey === undefined) return
      if (presentedKey !== session.boundKey) {
        refuse(req, res, 401, 'Invalid device proof')
        return
      }
    }
    if (fault === 'binding forgotten at refresh') session.boundKey = undefined
    if (fault === 'refresh token replaced late') await pause(PAUSE_MILLISECONDS)
    if (isRepeat) res.set('Idempotent-Replayed', 'true')
    else if (fault !== 'same refresh token') newToken(session)
    session.lastKey = fault === 'repeat without key' ? undefined : idempotencyKey
    sendTokens(res, session)
  }

  const logOut = (req: Request, res: Response): void => {
    const claims = readClaims(req)
    if (typeof claims === 'string') {
      refuse(req, res, 401, claims)
      return
    }
    const isEnded = ({ id, did }: ToySession): boolean =>
      id === claims.sid || (fault === 'logout of all sessions' && did === claims.sub)
    const ended = fault === 'logout that keeps the session' ? [] : [...sessions].filter(isEnded)
    for (const session of ended) {
      sessions.delete(session)
      if (fault !== 'ended sessions never listed') endedIds.push(session.id)
    }
    res.status(200).end()
  }

  /** Answers the list of all sessions that ended since the start, whose order is that of their ends. */
  const answerEnded = (req: Request, res: Response): void => {
    const { after = '0' } = req.query
    const isTime = typeof after === 'string' && /^\d+$/.test(after)
    if (!isTime && fault !== 'list for any after') {
      res.status(400).end()
      return
    }
    const iat = clock.nowSeconds()
    const toTag = (id: string): string =>
      fault === 'ended sessions listed by id' ? id : createHash('sha256').update(id).digest('base64url').slice(0, 16)
    const claims = {
      iss: fault === 'list of another issuer' ? `${serviceWallet.did.slice(0, -2)}00` : serviceWallet.did,
      aud: fault === 'list for another audience' ? 'https://other.example' : `https://${toyDomain}`,
      iat,
      exp: iat + (fault === 'list for an hour' ? 3_600 : 60),
      ...{ after: 0, until: iat, more: false, ended: endedIds.map(toTag) }
    }
    const typ = fault === 'list of another type' ? 'JWT' : 'ended-sessions+jwt'
    const input = `${encode({ alg: 'ES256K', typ })}.${encode(claims)}`
    const signedInput = fault === 'list that another key signed' ? `${input}x` : input
    const list = `${input}.${signInput(signedInput)}`
    const etag = `"${createHash('sha256').update(list).digest('hex')}"`
    if (fault !== 'list for own pages') res.set('Access-Control-Allow-Origin', '*')
    if (fault !== 'list without ETag') res.set('ETag', etag)
    const isUnchanged = req.get('if-none-match') === etag && fault !== 'list that is never unchanged'
    if (isUnchanged) res.writeHead(304).end()
    else res.writeHead(200, { 'Content-Type': 'application/jwt' }).end(list)
  }

  const app = express()
  app.disable('x-powered-by').disable('etag')
  app.use((req, res, next) => {
    if (fault === 'credentials for every origin' && req.get('origin') !== undefined) {
      res.set({ 'Access-Control-Allow-Origin': req.get('origin'), 'Access-Control-Allow-Credentials': 'true' })
    }
    next()
  })
  app.use(express.json({ limit: '16kb', strict: false }))
  for (const [flow, path] of [['auth', '/request-auth'] as const, ['signup', '/request-signup'] as const]) {
    app.post(path, answerChallenge(flow)).get(`${path}/:did`, answerChallenge(flow)).post(`/${flow}`, logIn(flow))
  }
  app.post('/refresh-token', refresh).post('/logout', logOut)
  app.get('/.well-known/ended-sessions', answerEnded)
  const serviceUrl = `https://${toyDomain}`
  const machineLogin = addToyMachineLogin(app, serviceUrl, clock, fault)
  app.get('/.well-known/did-auth.json', (_req, res) => {
    const ended_sessions_uri = `${serviceUrl}/.well-known/ended-sessions`
    const dpop_signing_alg_values_supported = ['ES256']
    const uris = { ended_sessions_uri, dpop_signing_alg_values_supported, ...machineLogin }
    res.json({ version: 1, serviceUrl, serviceDid: serviceWallet.did, ...uris })
  })
  app.get('/me', (req, res) => {
    const claims = readClaims(req)
    if (typeof claims === 'string') refuse(req, res, 401, claims)
    else res.json({ did: claims.sub })
  })
  const onError: ErrorRequestHandler = (error: Error & { status?: number }, req, res, _next) => {
    const text = fault === 'stack for broken JSON' ? String(error.stack) : error.name
    refuse(req, res, error.status ?? 500, text)
  }
  return { app: app.use(onError), clock }
}

function lowS(sig: string): Signature {
  const order = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n
  const s = BigInt(`0x${sig.slice(66, 130)}`)
  if (s <= order / 2n) return Signature.from(sig)
  const other = (order - s).toString(16).padStart(64, '0')
  return Signature.from(`${sig.slice(0, 66)}${other}${sig.endsWith('1b') ? '1c' : '1b'}`)
}
