import { createPublicKey, verify, type JsonWebKey } from 'node:crypto'
import express, { type Express, type Request, type Response } from 'express'
import type { TestClock } from '../fixtures/fixtures.js'

/** Faults of the token endpoint. */
export type MachineFault =
  | 'assertion good twice'
  | 'assertion of any key'
  | 'assertion for any audience'
  | 'assertion without end'
  | 'token of a machine with a session'
  | 'token of a machine for a day'
  | 'token for any resource'
  | 'metadata of another issuer'

const RESOURCE = 'https://orders.example'

type Claims = Record<'iss' | 'sub' | 'aud' | 'jti', string | undefined> & { exp?: number }

/** Adds an independent token endpoint for machines with a did:jwk of P-256, and returns its members in discovery. */
export function addToyMachineLogin(app: Express, url: string, clock: TestClock, fault: string | undefined): object {
  const usedIds = new Set<string>()
  const decode = (part = ''): unknown => JSON.parse(Buffer.from(part, 'base64url').toString())
  const encode = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')

  const isSigned = (jwt: string, did: string): boolean => {
    if (fault === 'assertion of any key') return true
    const [header = '', payload = '', signature = ''] = jwt.split('.')
    if ((decode(header) as { alg: string }).alg !== 'ES256') return false
    const key = createPublicKey({ key: decode(did.slice('did:jwk:'.length)) as JsonWebKey, format: 'jwk' })
    const bytes = Buffer.from(signature, 'base64url')
    return verify('sha256', Buffer.from(`${header}.${payload}`), { key, dsaEncoding: 'ieee-p1363' }, bytes)
  }

  const findDid = (jwt: string): string | undefined => {
    try {
      const { iss, sub, aud, jti, exp = 0 } = decode(jwt.split('.')[1]) as Claims
      const now = clock.nowSeconds()
      const isForUs = aud === url || fault === 'assertion for any audience'
      const isInTime = (exp > now && exp <= now + 360) || fault === 'assertion without end'
      const isFresh = jti !== undefined && (!usedIds.has(jti) || fault === 'assertion good twice')
      if (iss === undefined || sub !== iss || !isForUs || !isInTime || !isFresh || !isSigned(jwt, iss)) return undefined
      usedIds.add(jti)
      return iss
    } catch {
      return undefined
    }
  }

  const answer = (req: Request, res: Response): void => {
    const { grant_type: grant, resource, client_assertion: jwt } = req.body as Record<string, unknown>
    const refuse = (status: number, error: string): void => void res.status(status).json({ error })
    res.set('Cache-Control', 'no-store')
    if (Array.isArray(resource)) refuse(400, 'invalid_request')
    else if (grant !== 'client_credentials') refuse(400, 'unsupported_grant_type')
    else if (resource !== RESOURCE && fault !== 'token for any resource') refuse(400, 'invalid_target')
    else {
      const did = findDid(String(jwt))
      if (did === undefined) {
        refuse(401, 'invalid_client')
        return
      }
      const iat = clock.nowSeconds()
      const exp = iat + (fault === 'token of a machine for a day' ? 86_400 : 300)
      const session = fault === 'token of a machine with a session' ? { sid: 'x' } : {}
      const claims = { iss: url, aud: RESOURCE, sub: did, client_id: did, iat, exp, ...session }
      res.json({
        access_token: `${encode({ alg: 'ES256' })}.${encode(claims)}.x`,
        token_type: 'Bearer',
        expires_in: 300
      })
    }
  }

  const token_endpoint = `${url}/token`
  const jwks_uri = `${url}/keys`
  app.post('/token', express.urlencoded({ extended: false }), answer)
  app.get('/.well-known/oauth-authorization-server', (_req, res) => {
    const issuer = fault === 'metadata of another issuer' ? `${url}/` : url
    res.json({ issuer, token_endpoint, jwks_uri, response_types_supported: [] })
  })
  return { token_endpoint, jwks_uri, resources: [RESOURCE] }
}
