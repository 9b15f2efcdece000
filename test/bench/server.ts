/** Child process that serves one of the measured applications. `server.ts <name> [arguments]` */
import { generateKeyPairSync } from 'node:crypto'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import express, { type Express, type RequestHandler } from 'express'
import { didOfPrivateKey, es256kSigner, setupDidAuth, type DidAuthConfig } from 'express-did-auth'
import type { EndedSessionsOptions } from 'express-did-auth/verify'
import { p256Key } from '../support/fixtures/credentials.js'
import { START_SECONDS } from '../support/fixtures/fixtures.js'
import { RESOURCE, SERVICE_KEY, SERVICE_URL } from './wallets.js'

const MEBIBYTE = 1_048_576
const { publicKeyJwk } = p256Key()
const [, , name = '', ...args] = process.argv
const app = express()

async function guard(options: Partial<DidAuthConfig>): Promise<void> {
  const requireDid = setupDidAuth(app, {
    challengeSecret: 'secret of the benchmark, 32 bytes or more',
    serviceUrl: SERVICE_URL,
    serviceDid: await didOfPrivateKey(SERVICE_KEY),
    serviceSigner: es256kSigner(SERVICE_KEY),
    resources: [RESOURCE],
    resourceKeys: [generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' })],
    ...options
  })
  await requireDid.ready
  app.get('/guarded', requireDid, (_req, res) => {
    res.json({ hello: 'world' })
  })
}

const silentLogger = { info: () => undefined, warn: () => undefined, error: () => undefined }

async function verifyLocally(endedSessions: EndedSessionsOptions | undefined): Promise<void> {
  const { accessTokenVerifier, requireToken } = await import('express-did-auth/verify')
  const issuer = await didOfPrivateKey(SERVICE_KEY)
  const guarded = requireToken(accessTokenVerifier({ issuer, audience: SERVICE_URL, endedSessions }))
  app.get('/guarded', guarded, (_req, res) => {
    res.json({ hello: 'world' })
  })
}

const applications: Record<string, () => Promise<unknown>> = {
  bare: async () => undefined,
  'did-auth': () => guard({ maxRequestsPerTimeSlot: Infinity, siwe: true, machineLogin: true }),
  'did-auth-sqlite': async () => {
    const { sqliteStore } = await import('express-did-auth/stores/sqlite')
    await guard({ maxRequestsPerTimeSlot: Infinity, siwe: true, machineLogin: true, store: sqliteStore(args[0]!) })
  },
  // Instance on PostgreSQL. The arguments are the URL of the database and the size of the pool.
  instance: async () => {
    const { postgresStore } = await import('express-did-auth/stores/postgres')
    // The load sets a client address for each request. With one address, all would share the row of one quota.
    app.set('trust proxy', true)
    await guard({
      store: postgresStore(args[0]!, { poolSize: Number(args[1]) }),
      // This limit is never reached, but requests are counted.
      maxRequestsPerTimeSlot: 1_000_000,
      // No window or token expires during a run.
      challengeExpirationTimeInSeconds: 86_400,
      accessTokenExpirationTimeInSeconds: 7_200,
      logger: silentLogger
    })
  },
  // Target of the attacks. It verifies credentials at sign-up, and resolves each issuer to a document that an attacker
  // could publish.
  attacked: async () => {
    app.set('trust proxy', true)
    const never = new Promise<object>(() => undefined)
    const resolve = (did: string): Promise<object> =>
      did.includes('silent') ? never : Promise.resolve(createDocument(did, did.includes('huge') ? 3_000 : 100))
    await guard({ signupBusinessLogic: () => undefined, resolver: { resolve }, logger: silentLogger })
  },
  // Service whose list of ended sessions others read.
  publisher: () => guard({ maxRequestsPerTimeSlot: Infinity, endedSessions: true }),
  'device-binding': () => guard({ maxRequestsPerTimeSlot: Infinity, deviceBinding: 'accepted' }),
  // Sign up with a credential whose status is checked. The argument is the DID of the trusted issuer.
  credentials: () =>
    guard({
      maxRequestsPerTimeSlot: Infinity,
      // Lists on this machine are fetched by http only if the service is on this machine.
      serviceUrl: 'http://localhost:3000',
      loginDomains: ['bench.example'],
      requiredCredentials: ['Email'],
      credentialStatus: 'check',
      trustedIssuers: [args[0]!],
      // The credentials of tests are valid at this time.
      clock: { nowSeconds: () => START_SECONDS },
      logger: silentLogger
    }),
  // Another service, which verifies tokens locally: without the list, and with the list at a URL.
  verifier: () => verifyLocally(undefined),
  'verifier-with-list': () => verifyLocally({ url: args[0] }),
  siwe: () => serveSiwe(app),
  // Bare routes of a relay with the minimum cost. They only drain their body or send a prepared buffer.
  relay: async () => {
    const posted = { url: `relay://bafkrei${'a'.repeat(52)}`, cid: `bafkrei${'a'.repeat(52)}` }
    const answer = Buffer.from(`{"file":"${'a'.repeat(MEBIBYTE)}"}`)
    app.post('/file', drain, (_req, res) => {
      res.json(posted)
    })
    app.get('/file/ready', (_req, res) => {
      res.writeHead(200, { 'Content-Type': 'application/json; charset=utf-8', 'Content-Length': answer.length })
      res.end(answer)
    })
  }
}

/** Returns a DID document with many keys: 3,000 exceed the limit, 100 are the maximum. */
function createDocument(did: string, keys: number): object {
  const verificationMethod = Array.from({ length: keys }, (_, number) => ({
    id: `${did}#${String(number)}`,
    type: 'JsonWebKey2020',
    controller: did,
    publicKeyJwk
  }))
  const didDocument = { id: did, verificationMethod, assertionMethod: verificationMethod.map(({ id }) => id) }
  return { didResolutionMetadata: {}, didDocumentMetadata: {}, didDocument }
}

/** Part of siwe that this file uses. siwe is installed with the packages of the slow tests. */
interface Siwe {
  generateNonce(): string
  SiweMessage: new (message: string) => {
    verify(proof: object): Promise<{ success: boolean; data: { address: string } }>
  }
}

/** Serves the same routes with siwe and express-session. */
async function serveSiwe(host: Express): Promise<void> {
  const { default: session } = await import('express-session')
  const fromSlow = createRequire(new URL('../slow/package.json', import.meta.url))
  const { generateNonce, SiweMessage } = fromSlow('siwe') as Siwe
  host.use(session({ secret: 's'.repeat(32), resave: false, saveUninitialized: false }))
  host.post('/request-auth', (req, res) => {
    const challenge = generateNonce()
    Object.assign(req.session, { nonce: challenge })
    res.json({ challenge })
  })
  host.post('/auth', express.json(), (req, res) => {
    const { message, signature } = req.body as { message: string; signature: string }
    const { nonce } = req.session as unknown as { nonce: string }
    void new SiweMessage(message).verify({ signature, nonce }).then(({ success, data }) => {
      Object.assign(req.session, { address: data.address })
      res.status(success ? 200 : 401).json({ ok: success })
    })
  })
  host.get('/guarded', (req, res) => {
    if ('address' in req.session) res.json({ hello: 'world' })
    else res.status(401).end()
  })
}

const drain: RequestHandler = (req, _res, next) => {
  req.on('end', next).resume()
}
await applications[name]!()
app.get('/bare', (_req, res) => {
  res.json({ hello: 'world' })
})
// Routes that parse JSON like Express applications, and routes that only drain the body.
for (const [kind, read] of [
  ['bare', express.json()],
  ['drained', drain]
] as const) {
  app.post(`/${kind}-challenge`, read, (_req, res) => {
    res.json({ challenge: 'c'.repeat(64) })
  })
  app.post(`/${kind}-tokens`, read, (_req, res) => {
    res.json({ accessToken: 'a'.repeat(520), refreshToken: 'r'.repeat(43) })
  })
}
const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port })
})
// The pauses between rounds exceed the default keep-alive time of a server.
server.keepAliveTimeout = 600_000
