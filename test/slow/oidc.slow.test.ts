import { describe, expect, it, jest } from '@jest/globals'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createLocalJWKSet, jwtVerify } from 'jose'
import { afterTest } from '../support/fixtures/after-test.js'
import { runExample } from '../support/servers/run-script.js'
import { createLoginText, createNumberedWallet } from '../support/fixtures/fixtures.js'

const alice = createNumberedWallet(1)
const CALLBACK = 'http://localhost:3001/callback'

/** Creates a browser that stores cookies and follows no redirects. */
function createBrowser(origin: string) {
  const cookies = new Map<string, { value: string; path: string }>()
  return async (path: string, init: RequestInit = {}): Promise<Response> => {
    const url = new URL(path, origin)
    const sent = [...cookies].filter(([, cookie]) => url.pathname.startsWith(cookie.path))
    const Cookie = sent.map(([name, { value }]) => `${name}=${value}`).join('; ')
    const headers = new Headers(init.headers)
    headers.set('Cookie', Cookie)
    const response = await fetch(url, { redirect: 'manual', ...init, headers })
    for (const cookie of response.headers.getSetCookie()) {
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? []
      cookies.set(name, { value, path: /; ?path=([^;]+)/i.exec(cookie)?.[1] ?? '/' })
    }
    return response
  }
}

const createJsonRequest = (body: object): RequestInit => ({
  method: 'POST',
  headers: { 'Content-Type': 'application/json', Origin: 'http://localhost:3000' },
  body: JSON.stringify(body)
})

describe('examples/oidc-provider.mjs', () => {
  it('issues OpenID Connect tokens to a client whose user logged in with a wallet', async () => {
    jest.spyOn(console, 'info').mockImplementation(() => undefined)
    jest.spyOn(console, 'warn').mockImplementation(() => undefined)
    const path = '../../examples/oidc-provider.mjs'
    const example = await runExample(() => import(path))
    afterTest(example.stop)
    if (!example.server.listening) await once(example.server, 'listening')
    const browse = createBrowser(`http://127.0.0.1:${String((example.server.address() as AddressInfo).port)}`)
    const expectRedirect = async (response: Response): Promise<string> => {
      expect([302, 303]).toContain(response.status)
      return response.headers.get('location') ?? ''
    }

    // A client starts the authorization with PKCE.
    const verifier = randomBytes(32).toString('base64url')
    const query = new URLSearchParams({
      client_id: 'shop',
      response_type: 'code',
      redirect_uri: CALLBACK,
      scope: 'openid',
      nonce: 'a nonce',
      state: 'a state',
      code_challenge: createHash('sha256').update(verifier).digest('base64url'),
      code_challenge_method: 'S256'
    })
    const interaction = await expectRedirect(await browse(`/oidc/auth?${query.toString()}`))
    expect(interaction).toMatch(/^\/interaction\/[\w-]+$/)
    expect((await browse(interaction)).status).toBe(200)

    // Login continues only with the session of a wallet's login, and only from this service's own page.
    const ownRequest = { method: 'POST', headers: { Origin: 'http://localhost:3000' } }
    expect((await browse(interaction, ownRequest)).status).toBe(401)
    const { challenge } = (await (await browse('/request-auth', createJsonRequest({ did: alice.did }))).json()) as {
      challenge: string
    }
    const sig = alice.personalSign(createLoginText('localhost:3000', challenge))
    expect((await browse('/auth', createJsonRequest({ did: alice.did, sig }))).status).toBe(200)
    const foreign = { method: 'POST', headers: { Origin: 'https://evil.example' } }
    expect((await browse(interaction, foreign)).status).toBe(403)
    const resumed = await expectRedirect(await browse(interaction, ownRequest))
    const callback = new URL(await expectRedirect(await browse(resumed)))
    expect(callback.href.startsWith(`${CALLBACK}?`)).toBe(true)
    expect(callback.searchParams.get('state')).toBe('a state')

    // The client exchanges its code, and verifies the ID token with the provider's keys.
    const body = new URLSearchParams({
      grant_type: 'authorization_code',
      code: callback.searchParams.get('code') ?? '',
      redirect_uri: CALLBACK,
      client_id: 'shop',
      code_verifier: verifier
    })
    const { id_token: idToken } = (await (await browse('/oidc/token', { method: 'POST', body })).json()) as {
      id_token: string
    }
    const keys = createLocalJWKSet(
      (await (await browse('/oidc/jwks')).json()) as Parameters<typeof createLocalJWKSet>[0]
    )
    const expected = { issuer: 'http://localhost:3000/oidc', audience: 'shop' }
    const { payload } = await jwtVerify(idToken, keys, expected)
    expect(payload).toMatchObject({ sub: alice.did, nonce: 'a nonce' })

    // Cause: the provider's session still identified the previous user after another user had logged in.
    expect(await expectRedirect(await browse(`/oidc/auth?${query.toString()}`))).toMatch(/^\/interaction\/[\w-]+$/)
  })
})
