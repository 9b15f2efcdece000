import { describe, expect, it } from '@jest/globals'
import { toAuthInfo } from 'express-did-auth/verify'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const { did, address } = createNumberedWallet(1)
const times = { iat: 1_700_000_000, nbf: 1_700_000_000, exp: 1_700_000_300 }
const auth = (claims: object) => ({
  sessionId: 'session-1',
  canonicalDid: did.toLowerCase(),
  address: address.toLowerCase(),
  claims: {
    iss: 'https://auth.example',
    aud: 'https://orders.example/mcp',
    sub: did,
    sid: 'session-1',
    ...times,
    ...claims
  }
})

describe('toAuthInfo', () => {
  it('returns token, client, scopes, expiry and resource as MCP SDKs read them, and the user in `extra`', () => {
    const info = auth({ client_id: 'https://auth.example', scope: 'read  write' })
    expect(toAuthInfo({ headers: { authorization: 'Bearer a.b.c' }, auth: info })).toEqual({
      token: 'a.b.c',
      clientId: 'https://auth.example',
      scopes: ['read', 'write'],
      expiresAt: 1_700_000_300,
      resource: new URL('https://orders.example/mcp'),
      extra: { did, ...info }
    })
  })

  it('takes the DID as client of a token without `client_id`, and knows no resource that is no URL', () => {
    const found = toAuthInfo({ headers: { authorization: 'DIDAuth a.b.c' }, auth: auth({ aud: 'orders' }) })
    expect(found).toMatchObject({ token: 'a.b.c', clientId: did, scopes: [] })
    expect(found).not.toHaveProperty('resource')
  })

  it('has no token of a request with a cookie', () => {
    expect(toAuthInfo({ headers: { cookie: 'authorization=a.b.c' }, auth: auth({}) }).token).toBe('')
  })

  it.each([undefined, {}, { payload: { sub: did } }])('refuses a request whose `auth` is %p', (other) => {
    const message = 'toAuthInfo(req) needs a request behind requireToken or requireDid, once per request'
    expect(() => toAuthInfo({ headers: {}, auth: other })).toThrow(new TypeError(message))
  })
})
