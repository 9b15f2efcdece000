import { describe, expect, it } from '@jest/globals'
import type { webcrypto } from 'node:crypto'
import { createRemoteJWKSet, jwtVerify } from 'jose'
import { startIssuer } from '../support/servers/resource-tokens.js'
import { resourceKey } from '../support/servers/test-app.js'
import { systemClock } from '../../src/time.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const ORDERS = 'https://orders.example'
const { did } = createNumberedWallet(1)
const startIssuerNow = () =>
  startIssuer({
    clock: systemClock,
    resourceKeys: [resourceKey(1), resourceKey(2)],
    challengeExpirationTimeInSeconds: 86_400
  })

describe('a resource token', () => {
  it('is verified by jose 6 with only the URL of the keys', async () => {
    const { url: issuer, tokenFor } = await startIssuerNow()
    const keys = createRemoteJWKSet(new URL(`${issuer}/.well-known/jwks.json`))
    const expected = { issuer, audience: ORDERS, typ: 'at+jwt', algorithms: ['ES256'] }
    const { payload } = await jwtVerify(await tokenFor(ORDERS), keys, expected)
    expect(payload.sub).toBe(did)
    await expect(jwtVerify(await tokenFor('https://files.example'), keys, expected)).rejects.toMatchObject({
      code: 'ERR_JWT_CLAIM_VALIDATION_FAILED',
      claim: 'aud'
    })
  })

  it('is verified with only WebCrypto, in the steps of the documentation', async () => {
    const { url: issuer, tokenFor } = await startIssuerNow()
    const token = await tokenFor(ORDERS)
    expect(await verifyByHand(token, issuer, ORDERS)).toMatchObject({ sub: did })
    await expect(verifyByHand(token, issuer, 'https://files.example')).rejects.toThrow('refused')
    const [header, , signature] = token.split('.')
    const other = Buffer.from(JSON.stringify({ iss: issuer, aud: ORDERS, sub: did, exp: 9e9 })).toString('base64url')
    await expect(verifyByHand(`${header}.${other}.${signature}`, issuer, ORDERS)).rejects.toThrow('refused')
  })
})

/** Verifies a token without a library, as src/verify/README.md explains. */
async function verifyByHand(token: string, issuer: string, audience: string): Promise<Record<string, unknown>> {
  const parts = token.split('.')
  const bytes = (part = ''): Uint8Array<ArrayBuffer> => Uint8Array.from(Buffer.from(part, 'base64url'))
  const [header, claims] = parts.slice(0, 2).map((part) => JSON.parse(new TextDecoder().decode(bytes(part))))
  const { jwks_uri: uri } = (await (await fetch(`${issuer}/.well-known/did-auth.json`)).json()) as { jwks_uri: string }
  const { keys } = (await (await fetch(uri)).json()) as { keys: (webcrypto.JsonWebKey & { kid: string })[] }
  const jwk = keys.find(({ kid }) => kid === header.kid)
  const isPlain = parts.length === 3 && header.alg === 'ES256' && header.typ === 'at+jwt'
  if (jwk === undefined || !isPlain) throw new Error('refused')
  const ecdsa = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('jwk', jwk, ecdsa, false, ['verify'])
  const signed = new TextEncoder().encode(`${parts[0]}.${parts[1]}`)
  const isSigned = await crypto.subtle.verify(ecdsa, key, bytes(parts[2]), signed)
  const isForUs = claims.iss === issuer && claims.aud === audience && claims.exp > Date.now() / 1000
  if (!isSigned || !isForUs || typeof claims.sub !== 'string') throw new Error('refused')
  return claims
}
