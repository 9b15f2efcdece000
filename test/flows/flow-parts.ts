import { Buffer } from 'node:buffer'
import { loadCurve } from '../../src/adapters/curve.js'
import { createAssertionSignatures } from '../../src/adapters/assertion-signatures.js'
import { createDeviceSignatures } from '../../src/adapters/device-signatures.js'
import { issueJwt } from '../../src/adapters/service-key.js'
import { createSignatureCache } from '../../src/adapters/in-flight-requests.js'
import { RecentEntries } from '../../src/caches.js'
import { createResourceKeys } from '../../src/adapters/resource-keys.js'
import { systemErrorCodes, systemRandom } from '../../src/adapters/system.js'
import { memoryStore } from '../../src/stores/memory/index.js'
import { recordEnds } from '../../src/stores/record-ends.js'
import type { DidAuthConfig } from '../../src/config/options.js'
import { parseConfig } from '../../src/config/settings.js'
import { logIn } from '../../src/flows/log-in.js'
import type { Caller } from '../../src/flows/limits.js'
import type { Parts } from '../../src/flows/parts.js'
import { EndedSessionLists } from '../../src/flows/publish-ended-sessions.js'
import { refreshTokens } from '../../src/flows/tokens.js'
import type { VerifiedCredential } from '../../src/protocol/credential.js'
import { es256k } from '../protocol/forge-jwt.js'
import {
  challengeSecret,
  createLoginText,
  createNumberedWallet,
  serviceWallet,
  START_SECONDS,
  type TestWallet
} from '../support/fixtures/fixtures.js'
import { createKey } from '../support/fixtures/secp256k1-key.js'

export const SERVICE_URL = 'https://service.example'

/** Parts of the flows that a test can observe. `steps` records the calls in order. */
export interface FlowParts extends Parts {
  clock: { seconds: number; nowSeconds(): number }
  steps: string[]
  /** Names and limits of the charged quotas. */
  charges: [string, number][]
  infos: Record<string, unknown>[]
  warnings: Record<string, unknown>[]
  events: Record<string, unknown>[]
  /** Deadlines with one of these numbers of seconds expire immediately. */
  expiredDeadlines: Set<number>
  /** Result of the credential verifier, or the error that it throws. */
  credentials: VerifiedCredential[] | Error
}

const storeVerbs = [
  'createSession',
  'findSession',
  'rotateRefreshToken',
  'endSession',
  'countChallengeUses',
  'consumeChallenge'
] as const

const silent = (): void => undefined

/** Creates parts with the real curve and a memory store. The test controls time, deadlines and credentials. */
export async function createFlowParts(config: Partial<DidAuthConfig> = {}): Promise<FlowParts> {
  const curve = await loadCurve()
  const steps: string[] = []
  const store = memoryStore()
  for (const verb of storeVerbs) {
    const run = store[verb].bind(store) as (...args: unknown[]) => Promise<never>
    store[verb] = (...args: unknown[]) => {
      steps.push(verb)
      return run(...args)
    }
  }
  const sign = es256k(serviceWallet.privateKey)
  const parts: FlowParts = {
    settings: {
      ...parseConfig({
        challengeSecret,
        serviceUrl: SERVICE_URL,
        serviceDid: serviceWallet.did,
        serviceSigner: async () => '',
        ...config
      }),
      serviceDid: serviceWallet.did
    },
    steps,
    charges: [],
    infos: [],
    warnings: [],
    events: [],
    expiredDeadlines: new Set(),
    credentials: [],
    clock: { seconds: START_SECONDS, nowSeconds: () => parts.clock.seconds },
    random: systemRandom,
    systemErrorCodes,
    curve: {
      ...curve,
      recover(...args) {
        steps.push('recover')
        return curve.recover(...args)
      },
      verify(...args) {
        steps.push('verify')
        return curve.verify(...args)
      }
    },
    tokenCurve: { sha256: curve.sha256, verify: (...args) => parts.curve.verify(...args) },
    serviceKey: {
      async publicKey() {
        steps.push('publicKey')
        return Buffer.from(createKey(serviceWallet.privateKey).publicKey)
      },
      async issueJwt(payload, _deadline, typ) {
        steps.push('sign')
        return issueJwt(payload, async (data) => sign(data), typ)
      }
    },
    store,
    verifiedTokens: new RecentEntries(),
    disclosureRequests: createSignatureCache(300),
    credentialVerifier: {
      async verify() {
        steps.push('verifyCredentials')
        if (parts.credentials instanceof Error) throw parts.credentials
        return parts.credentials
      }
    },
    assertCredentials: undefined,
    contractWallets: undefined,
    didControllers: undefined,
    verifyDeviceSignature: createDeviceSignatures(),
    verifyMachineSignature: createAssertionSignatures(),
    resourceKeys: createResourceKeys([]),
    endedSessionLists: new EndedSessionLists(),
    resourceIssuer: undefined,
    scheduler: {
      async yield(_client, priority) {
        steps.push(priority === 'background' ? 'yieldInBackground' : 'yield')
      }
    },
    quotas: { charge: async (_store, { name, limit }) => void parts.charges.push([name, limit]), assertLeft: silent },
    deadline: {
      async within(seconds, work, expired) {
        if (parts.expiredDeadlines.has(seconds)) throw expired()
        return work()
      }
    },
    report: (event) => void parts.events.push(event),
    logger: {
      info: (fields) => void parts.infos.push(fields),
      warn: (fields) => void parts.warnings.push(fields),
      error: silent
    }
  }
  const { listedSeconds } = parts.settings
  if (listedSeconds !== undefined) parts.store = recordEnds(store, listedSeconds)
  return parts
}

/** Creates parts of a service with EIP-4361, and its settings. */
export async function createSiweParts(config: Partial<DidAuthConfig> = {}) {
  const parts = await createFlowParts({ siwe: true, ...config })
  return { parts, siwe: parts.settings.siwe! }
}

/** Logs in wallet 1. Returns the parts, its tokens, and a function that refreshes them. */
export async function createLoggedIn(config: Partial<DidAuthConfig> = {}) {
  const parts = await createFlowParts(config)
  const wallet = createNumberedWallet(1)
  const tokens = await logIn(parts, { client, did: wallet.did, sig: signLogin(parts, wallet) })
  parts.steps.length = 0
  const refresh = (refreshToken: unknown, idempotencyKey?: string) =>
    refreshTokens(parts, { refreshToken, idempotencyKey, client })
  return { parts, tokens, refresh }
}

/** Caller whose client is connected. */
export const client: Caller = {
  network: '192.0.2.1',
  networks: [{ network: '192.0.2.1', factor: 1 }],
  isShared: false,
  isGone: () => false
}

/** Computes a challenge as specified, independently of the code under test. */
export function createChallenge(parts: Pick<Parts, 'curve'>, did: string, window = 6_000_000, useCount = 0): string {
  return parts.curve.keccak256Hex(`${did}-${challengeSecret}-${window}${useCount === 0 ? '' : `-${useCount}`}`)
}

/** Signs the login message of a challenge. Default: the first challenge of window 6,000,000. */
export function signLogin(
  parts: Pick<Parts, 'curve'>,
  wallet: TestWallet,
  { did = wallet.did, domain = 'service.example', window = 6_000_000, useCount = 0, thirdLine = '' } = {}
): string {
  return wallet.personalSign(createLoginText(domain, createChallenge(parts, did, window, useCount)) + thirdLine)
}

/** Returns the payload of a JWT without verifying its signature. */
export function decodePayload(jwt: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(jwt.split('.')[1]!, 'base64url').toString()) as Record<string, unknown>
}
