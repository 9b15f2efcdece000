/** Code that must or must not compile with the configuration. Checked by `npm run types`, never run. */
import {
  describeUserAgent,
  es256kSigner,
  memoryStore,
  type Claim,
  type DidAuthConfig,
  type Logger,
  type SecurityEvent,
  type Signer,
  type Store
} from 'express-did-auth'
import { generateKeyPairSync } from 'node:crypto'
import { createPublicClient, http } from 'viem'

const least: DidAuthConfig = {
  challengeSecret: 'a secret',
  serviceUrl: 'https://service.example',
  serviceDid: 'did:ethr:rsk:0x7e5f4552091a69125d5dfcb7b8c2659029395bdf',
  serviceSigner: es256kSigner('0x01')
}

/** Every row of the table of the specification, and every one of the contract, section 6. */
export const all: Required<DidAuthConfig> = {
  ...least,
  serviceDid: 'did:ethr:rsk:0x7e5f4552091a69125d5dfcb7b8c2659029395bdf',
  previousServiceDids: ['did:ethr:rsk:0x2b5ad5c4795c026514f8317c7a215e218dccd6cf'],
  useCookies: true,
  requestSignupPath: '/request-signup',
  signupPath: '/signup',
  requestAuthPath: '/request-auth',
  authPath: '/auth',
  logoutPath: '/logout',
  refreshTokenPath: '/refresh-token',
  challengeExpirationTimeInSeconds: 300,
  maxRequestsPerTimeSlot: Infinity,
  timeSlotInSeconds: 600,
  userSessionDurationInHours: 0.5,
  accessTokenExpirationTimeInSeconds: 600,
  rpcUrl: 'https://rpc.example',
  networkName: 'rsk:testnet',
  registry: '0xdca7ef03e98e0dc2b855be647c39abe984fcf21b',
  authenticationBusinessLogic: (did, { siwe }) => {
    const chainId: number | undefined = siwe?.chainId
    const resources: readonly string[] | undefined = siwe?.resources
    return did.startsWith('did:ethr:rsk:') && { tokenClaims: { chainId: chainId ?? 0, count: resources?.length ?? 0 } }
  },
  requiredCredentials: ['Email'],
  requiredClaims: [{ claimType: 'name', claimValue: '', reason: 'to greet you', essential: true }],
  signupBusinessLogic: async (response) => {
    const missing: string[] = response.missing.credentials.concat(response.missing.claims)
    const claims: Claim[] = response.claims
    const subject: string | undefined = response.credentials[0]?.subject
    return missing.length === 0 && { tokenClaims: { claims: claims.length, subject: subject ?? null } }
  },
  store: memoryStore({ maxSessions: 10 }),
  replayProtection: 'window',
  refreshReuseGraceSeconds: 0,
  loginDomains: ['app.example'],
  loginDialects: ['login', 'url'],
  contractWallets: {
    30: createPublicClient({ transport: http('https://rpc.example'), ccipRead: false }),
    1: {
      getChainId: async () => 1,
      getCode: async ({ address }) => `0x${address.slice(2)}`,
      verifyMessage: async ({ message, signature }) => message.length < signature.length
    }
  },
  didControl: 'document',
  loginProofs: true,
  networks: ['rsk', ''],
  siwe: { path: '/siwe', network: '', nonceSeconds: 60, domains: (domain) => domain.endsWith('.preview.example') },
  trustedOrigins: ['https://app.example'],
  resolver: { resolve: async () => ({}) },
  absoluteSessionDurationInHours: 24,
  refreshBusinessLogic: async (did, session) => {
    const createdAtSeconds: number = session.createdAtSeconds
    const address: string = session.address
    return did === session.canonicalDid && { tokenClaims: { createdAtSeconds, address } }
  },
  trustedIssuers: async (issuerDid: string) => issuerDid === 'did:web:issuer.example',
  credentialStatus: 'check',
  cookiePrefix: '__Host-',
  deviceBinding: 'accepted',
  errorFormat: 'problem',
  sessionPath: '/session',
  sessionsPath: '/sessions',
  resources: ['https://orders.example'],
  resourceKeys: [
    { kty: 'EC', crv: 'P-256', x: '', y: '', d: '' },
    generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' }),
    { publicKey: { kty: 'EC', crv: 'P-256', x: '', y: '' }, sign: async (data: Uint8Array) => data }
  ],
  resourceTokenPath: '/resource-token',
  machineLogin: true,
  tokenPath: '/token',
  resourceIssuer: {
    issuer: 'https://auth.example',
    audience: 'https://orders.example',
    endedSessions: { pollSeconds: 2, maxStaleSeconds: 30, whenStale: 'refuse', serviceDid: 'did:ethr:rsk:0x00' }
  },
  discovery: true,
  endedSessions: true,
  describeSession: ({ headers }) => describeUserAgent(headers['user-agent']),
  onSecurityEvent: (event: SecurityEvent) => {
    const did: string | undefined = event.did
    const atSeconds: number = event.atSeconds
    return [event.type, did, atSeconds]
  },
  logger: console,
  clock: { nowSeconds: () => Date.now() / 1000 }
}

declare const variable: string | undefined
declare const names: readonly string[]
declare const claimed: readonly Claim[]

/** An option that is undefined counts as absent, and a list is only read. */
export const fromEnvironment: DidAuthConfig = {
  ...least,
  useCookies: undefined,
  rpcUrl: variable,
  networkName: process.env.NETWORK_NAME,
  store: undefined,
  signupBusinessLogic: undefined,
  requiredCredentials: names,
  requiredClaims: claimed,
  loginDomains: names,
  networks: names,
  trustedOrigins: ['https://app.example'] as const
}

// @ts-expect-error -- required is required
export const undefinedSecret: DidAuthConfig = { ...least, challengeSecret: variable }

/** Signers of did-jwt: 64 or 65 bytes as base64url, or r and s. */
export const signers: Signer[] = [
  async () => 'base64url',
  async () => ({ r: 'aa', s: 'bb' }),
  async () => ({ r: 'aa', s: 'bb', recoveryParam: 1 }),
  async () => ({ r: 'aa', s: 'bb', recoveryParam: undefined })
]

/** Business logic that exists elsewhere returns what it likes, or throws. */
export const logics: DidAuthConfig['authenticationBusinessLogic'][] = [
  () => undefined,
  () => false,
  async () => ({ id: 7 }),
  async (did: string) => ({ tokenClaims: { did } }),
  () => {
    throw new Error('no')
  }
]

/** Business logic also gets the user's DID in its comparable forms. */
export const banned: DidAuthConfig['authenticationBusinessLogic'] = (_did, { canonicalDid, address }) =>
  canonicalDid !== address

export const logger: Logger = { info: () => undefined, warn: () => undefined, error: () => undefined }

/** A store is the whole interface: no verb may be left out. */
export const store: Store = memoryStore()

// @ts-expect-error -- serviceSigner is required
export const unsigned: DidAuthConfig = { challengeSecret: 'a', serviceUrl: 'b', serviceDid: 'c' }

// @ts-expect-error -- a store lacks verbs
export const partialStore: Store = { ping: async () => undefined, close: async () => undefined }

// @ts-expect-error -- a signer is asynchronous
export const synchronousSigner: Signer = () => 'base64url'

export const wrong: Partial<DidAuthConfig> = {
  // @ts-expect-error -- a boolean
  useCookies: 'true',
  // @ts-expect-error -- a number
  timeSlotInSeconds: '600',
  // @ts-expect-error -- one of two words
  replayProtection: 'none',
  // @ts-expect-error -- an array
  loginDomains: 'app.example',
  // @ts-expect-error -- one of three words
  cookiePrefix: 'app-',
  // @ts-expect-error -- a list, or a function
  trustedIssuers: 'did:web:issuer.example',
  // @ts-expect-error -- a claim has a value
  requiredClaims: [{ claimType: 'name' }],
  // @ts-expect-error -- a function
  authenticationBusinessLogic: true,
  // @ts-expect-error -- its argument is the DID
  signupBusinessLogic: (did: string) => did
}

// @ts-expect-error -- the name is userSessionDurationInHours
export const misspelt: DidAuthConfig = { ...least, userSessionDurationInSeconds: 600 }
