import { afterAll, describe, expect, it } from '@jest/globals'
import { decodeJwt } from 'jose'
import * as oauth from 'oauth4webapi'
import { closeServices, servingPort } from '../support/servers/server-client.js'
import { testApp } from '../support/servers/test-app.js'
import { systemClock } from '../../src/time.js'

afterAll(closeServices)

describe('device proofs of oauth4webapi', () => {
  it('bind a login, refresh its session and open a guarded route, each after one request for a nonce', async () => {
    const port = await servingPort((req, res) => void app(req, res))
    const url = `http://127.0.0.1:${port}`
    const times = { clock: systemClock, deviceBinding: 'required' } as const
    const config = { serviceUrl: url, loginDomains: ['service.example'], ...times }
    const { app, createSignedLogin } = await testApp(config, {
      after: (host, requireDid) =>
        host.get('/pay', requireDid.with({ deviceProof: true }), (_req, res) => void res.json('paid'))
    })
    const DPoP = oauth.DPoP({}, await oauth.generateKeyPair('ES256'))
    /** Sends a request with a proof. It names the access token with the scheme of this package. */
    const send = async (method: string, path: string, token: string, body?: object): Promise<Response> => {
      const headers = new Headers({ 'Content-Type': 'application/json' })
      const text = body === undefined ? null : JSON.stringify(body)
      const customFetch = (input: string, init: { headers: Record<string, string> }): Promise<Response> =>
        fetch(input, { ...init, headers: { ...init.headers, authorization: `DIDAuth ${token}` } })
      // eslint-disable-next-line @typescript-eslint/no-deprecated -- the service of this test has no certificate
      const options = { DPoP, [oauth.allowInsecureRequests]: true, [oauth.customFetch]: customFetch }
      return oauth.protectedResourceRequest(token, method, new URL(url + path), headers, text, options)
    }
    const login = await createSignedLogin()
    // The library has no nonce yet. It takes the one of the refusal.
    await expect(send('POST', '/auth', 'none', login)).rejects.toMatchObject({ status: 401 })
    const tokens = (await (await send('POST', '/auth', 'none', login)).json()) as Record<string, string>
    expect(decodeJwt(tokens.accessToken!).cnf).toEqual({ jkt: await DPoP.calculateThumbprint() })
    const refreshed = await send('POST', '/refresh-token', 'none', { refreshToken: tokens.refreshToken })
    const { accessToken = '' } = (await refreshed.json()) as Record<string, string>
    expect(await (await send('GET', '/pay?a=1', accessToken)).json()).toBe('paid')
  })
})
