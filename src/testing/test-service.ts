import { randomBytes } from 'node:crypto'
import { bytesToHex } from '@noble/hashes/utils.js'
import { pureCurve } from '../adapters/curve-pure.js'
import { es256kSigner, issueJwt } from '../adapters/es256k-signer.js'
import { consoleLogger } from '../adapters/reports.js'
import { systemClock } from '../time.js'
import type { Clock, Logger, Signer } from '../ports.js'
import { createAccessTokenPayload } from '../protocol/access-token.js'
import type { JsonObject } from '../protocol/json.js'
import { parseSignerOutput } from '../protocol/personal-sign.js'
import { createDid, deriveWalletKey } from './wallet.js'

/** The service that {@link accessTokenFor} signs for: options of `setupDidAuth`. */
export interface TokenService {
  serviceUrl: string
  serviceDid: string
  serviceSigner: Signer
  /** Default 600. */
  accessTokenExpirationTimeInSeconds?: number | undefined
  clock?: Clock | undefined
}

/** The options that {@link testConfig} gives. Spread them into those of `setupDidAuth`. */
export interface TestConfig extends Pick<TokenService, 'serviceUrl' | 'serviceDid' | 'serviceSigner'> {
  challengeSecret: string
  maxRequestsPerTimeSlot: number
  logger: Logger
}

/** A logger for tests: it prints failures of the service, and no warning about requests that a test has refused. */
export const quietLogger: Logger = { ...consoleLogger, warn: () => undefined }

/** A clock that moves when a test advances it: `clock` of `setupDidAuth`, of a verifier and of the client. */
export interface FakeClock extends Clock {
  /** Moves the clock, back where `seconds` is negative. */
  advance(seconds: number): void
}

/**
 * Makes a clock that a test sets.
 *
 * @param startSeconds - whole seconds since the Unix epoch; default 1,800,000,000, where a challenge window begins
 * @example
 * const clock = fakeClock()
 * setupDidAuth(app, { ...testConfig(), clock })
 * clock.advance(600) // The access token has expired.
 */
export function fakeClock(startSeconds = 1_800_000_000): FakeClock {
  let seconds = startSeconds
  return {
    nowSeconds: () => seconds,
    advance: (by) => {
      seconds += by
    }
  }
}

/**
 * The required options of a service that is tested: `http://localhost:3000`, with a key that this package publishes,
 * no limit of requests, and {@link quietLogger}. Never use it outside tests: anyone can sign with that key.
 *
 * @example
 * const app = express()
 * const requireDid = setupDidAuth(app, { ...testConfig(), useCookies: true })
 */
export function testConfig(): TestConfig {
  const { privateKey, address } = deriveWalletKey('the service of a test')
  return {
    challengeSecret: bytesToHex(pureCurve.sha256('the challenge secret of a test')),
    serviceUrl: 'http://localhost:3000',
    serviceDid: createDid('rsk', address),
    serviceSigner: es256kSigner(privateKey),
    maxRequestsPerTimeSlot: Infinity,
    logger: quietLogger
  }
}

/**
 * Signs an access token without a login, for tests of what happens behind one. No session belongs to it, so
 * `checkSession` refuses it.
 *
 * @param claims - further claims, and claims in place of those that a token has: `{ exp: 0 }` is an expired token
 * @param service - whose token it is; default {@link testConfig}
 * @throws TypeError when `serviceSigner` returns no signature
 * @example
 * const token = await accessTokenFor(wallet('alice').did, { email: 'alice@example.org' })
 * await request(app).get('/profile').set('Authorization', `DIDAuth ${token}`)
 */
export async function accessTokenFor(
  did: string,
  claims: JsonObject = {},
  service: TokenService = testConfig()
): Promise<string> {
  const { serviceDid: iss, serviceUrl: aud, accessTokenExpirationTimeInSeconds: seconds = 600 } = service
  const ids = { jti: randomBytes(16).toString('base64url'), sid: randomBytes(18).toString('base64url') }
  const nowSeconds = Math.floor((service.clock ?? systemClock).nowSeconds())
  const payload = createAccessTokenPayload({ iss, aud, sub: did, ...ids }, nowSeconds, seconds)
  return issueJwt({ ...payload, ...claims }, async (data) => {
    const signature = parseSignerOutput(await service.serviceSigner(data))
    if (signature === undefined) throw new TypeError('serviceSigner returned no ES256K signature')
    return signature
  })
}
