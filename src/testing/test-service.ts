import { randomBytes } from 'node:crypto'
import { bytesToHex } from '@noble/hashes/utils.js'
import { pureCurve } from '../adapters/curve-pure.js'
import { es256kSigner, issueJwt } from '../adapters/service-key.js'
import { consoleLogger } from '../adapters/reports.js'
import { systemClock } from '../time.js'
import type { Clock, Logger, Signer } from '../ports.js'
import { createAccessTokenPayload } from '../protocol/access-token.js'
import { ethrDid } from '../protocol/did.js'
import type { JsonObject } from '../protocol/json.js'
import { parseSignerOutput } from '../protocol/personal-sign.js'
import { deriveWalletKey } from './wallet.js'

/** Service of a token by {@link accessTokenFor}: some options of `setupDidAuth`. */
export interface TokenService {
  /** `aud` of the token. */
  serviceUrl: string
  /** `iss` of the token. */
  serviceDid: string
  /** Signer with the key of `serviceDid`. */
  serviceSigner: Signer
  /** Validity of the token, in seconds. Default 600. */
  accessTokenExpirationTimeInSeconds?: number | undefined
  /** Clock for the times of the token. Default: the machine's clock. */
  clock?: Clock | undefined
}

/** Options that {@link testConfig} returns. Spread them into those of `setupDidAuth`. */
export interface TestConfig extends Pick<TokenService, 'serviceUrl' | 'serviceDid' | 'serviceSigner'> {
  /** Published value. Everybody can compute challenges with it. */
  challengeSecret: string
  /** `Infinity`: no limit. */
  maxRequestsPerTimeSlot: number
  /** The logger `quietLogger`, which prints only failures. */
  logger: Logger
}

/** A logger for tests. It prints errors of the service, but no warnings, which tests of refusals cause. */
export const quietLogger: Logger = { ...consoleLogger, warn: () => undefined }

/** A clock that a test advances. Pass it as `clock` to `setupDidAuth`, a verifier or the client. */
export interface FakeClock extends Clock {
  /** Moves the clock forward, or back if `seconds` is negative. */
  advance(seconds: number): void
}

/**
 * Creates a clock that moves only when a test advances it.
 *
 * @param startSeconds - whole seconds since the Unix epoch; default 1,800,000,000, the start of a challenge window
 * @example
 * const clock = fakeClock()
 * setupDidAuth(app, { ...testConfig(), clock })
 * clock.advance(600) // The access token has expired.
 */
export function fakeClock(startSeconds = 1_800_000_000): FakeClock {
  let seconds = startSeconds
  return {
    nowSeconds: () => seconds,
    advance: (offset) => {
      seconds += offset
    }
  }
}

/**
 * Returns the required options for a service under test at `http://localhost:3000`, without request limits and with
 * {@link quietLogger}. Never use them outside tests: the key is public, so that anyone can sign with it.
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
    serviceDid: ethrDid('rsk', address),
    serviceSigner: es256kSigner(privateKey),
    maxRequestsPerTimeSlot: Infinity,
    logger: quietLogger
  }
}

/**
 * Signs an access token without a login, for tests of protected routes. The token has no session, so `checkSession`
 * refuses it.
 *
 * @param claims - claims that are added to the token or replace its own: `{ exp: 0 }` makes an expired token
 * @param service - service that issues the token; default {@link testConfig}
 * @throws TypeError if `serviceSigner` returns no signature
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
