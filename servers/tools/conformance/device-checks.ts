import { createHash, generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { parseHttpUrl } from 'express-did-auth/server-kit'
import { describe, readClaims, readSession, type Exchange, type Session } from '../service-under-test.js'
import type { ServiceUnderTest } from '../service-under-test.js'
import { assertStatus, assertThat, type Check } from './rules.js'

/** Name of the header that gives clients a nonce for their proofs. */
const NONCE_HEADER = 'dpop-nonce'

/** Members of a proof's payload that a check changes. */
type ProofChanges = Partial<Record<'htm' | 'htu' | 'nonce', string | undefined>>

/** A device with a new key, and its proofs for requests of one service. */
interface Device {
  /** Thumbprint of the key. @see RFC 7638 */
  thumbprint: string
  prove(path: string, changes?: ProofChanges): { DPoP: string }
  /** Reads the nonce of a response, and uses it in later proofs. */
  readNonce(exchange: Exchange): void
}

/** Checks of sessions that are bound to a device, for services whose discovery document announces proofs. */
export const deviceChecks = {
  'device-bound-login': async (service) => {
    const { device, session } = await logInWithDevice(service)
    const { cnf } = readClaims(session.accessToken)
    const expected = JSON.stringify({ jkt: device.thumbprint })
    assertThat(JSON.stringify(cnf) === expected, 'the claim cnf of the access token is not the thumbprint of the key')
  },
  'device-refresh': async (service) => {
    const { device, session } = await logInWithDevice(service)
    const next = await refreshAtDevice(service, session, device)
    assertThat(readClaims(next.accessToken).cnf !== undefined, 'the new access token has no claim cnf')
    await refreshAtDevice(service, next, device)
  },
  'device-copied-token': async (service) => {
    const { device, session } = await logInWithDevice(service)
    const thief = createDevice(service)
    thief.readNonce(session.answer)
    const { refreshToken: path } = service.paths
    assertStatus(await service.refresh(session), 401, 'the refresh of a bound session without a proof')
    assertStatus(await service.refresh(session, thief.prove(path)), 401, 'a proof of another key')
    await refreshAtDevice(service, session, device)
  },
  'device-invalid-proof': async (service) => {
    const device = createDevice(service)
    const user = service.newUser()
    device.readNonce(await service.requestChallenge({ did: user.did }))
    const login = await service.proof(user)
    const { auth } = service.paths
    const { DPoP } = device.prove(auth)
    const forged = `${DPoP.slice(0, DPoP.lastIndexOf('.'))}.${'A'.repeat(86)}`
    const proofs = [{ DPoP: forged }, device.prove(`${auth}/x`), device.prove(auth, { htm: 'GET' }), { DPoP: 'x' }]
    for (const headers of proofs) {
      assertStatus(await service.post(auth, login, headers), 401, 'a login with an invalid proof')
    }
    assertStatus(await service.post(auth, login, device.prove(auth)), 200, 'the same login with a valid proof')
  },
  'device-nonce': async (service) => {
    const device = createDevice(service)
    const login = await service.proof()
    const { auth } = service.paths
    const refused = await service.post(auth, login, device.prove(auth))
    assertStatus(refused, 401, 'a proof without a nonce')
    device.readNonce(refused)
    assertStatus(await service.post(auth, login, device.prove(auth)), 200, 'the same login with the new nonce')
  }
} satisfies Readonly<Record<string, Check>>

/** Whether the discovery document of a service announces that it accepts proofs. */
export function acceptsDeviceProofs({ discovery }: ServiceUnderTest): boolean {
  const algorithms = discovery.dpop_signing_alg_values_supported
  return Array.isArray(algorithms) && algorithms.includes('ES256')
}

async function logInWithDevice(service: ServiceUnderTest): Promise<{ device: Device; session: Session }> {
  const [device, user] = [createDevice(service), service.newUser()]
  device.readNonce(await service.requestChallenge({ did: user.did }))
  const exchange = await service.post(service.paths.auth, await service.proof(user), device.prove(service.paths.auth))
  const session = readSession(user, exchange)
  assertThat(session !== undefined, `a login with a proof opened no session: ${describe(exchange)}`)
  device.readNonce(exchange)
  return { device, session }
}

async function refreshAtDevice(service: ServiceUnderTest, session: Session, device: Device): Promise<Session> {
  const exchange = await service.refresh(session, device.prove(service.paths.refreshToken))
  const next = readSession(session.user, exchange)
  assertThat(next !== undefined, `a refresh with the proof of the device failed: ${describe(exchange)}`)
  device.readNonce(exchange)
  return next
}

function createDevice({ discovery, options: { url } }: ServiceUnderTest): Device {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { crv, kty, x, y } = publicKey.export({ format: 'jwk' })
  const jwk = { crv, kty, x, y }
  const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  // The address under test may be that of a proxy, but clients know the service by its own URL.
  const { origin } = parseHttpUrl(String(discovery.serviceUrl)) ?? url
  const base = origin + url.pathname.replace(/\/$/, '')
  let nonce: string | undefined
  return {
    thumbprint: createHash('sha256').update(JSON.stringify(jwk)).digest('base64url'),
    readNonce: ({ headers }) => (nonce = headers.get(NONCE_HEADER) ?? undefined),
    prove(path, changes) {
      const iat = Math.floor(Date.now() / 1_000)
      const payload = { jti: randomUUID(), htm: 'POST', htu: base + path, iat, nonce, ...changes }
      const input = `${encode({ typ: 'dpop+jwt', alg: 'ES256', jwk })}.${encode(payload)}`
      const key = { key: privateKey, dsaEncoding: 'ieee-p1363' } as const
      return { DPoP: `${input}.${sign('sha256', Buffer.from(input), key).toString('base64url')}` }
    }
  }
}
