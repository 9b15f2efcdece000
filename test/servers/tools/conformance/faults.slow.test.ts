import { afterEach, describe, expect, it } from '@jest/globals'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { checkService, listIds } from '../../../support/servers/conformance.js'
import { closeServices } from '../../../support/servers/server-client.js'
import { testApp } from '../../../support/servers/test-app.js'
import { startToyAuthServer, toyDomain, type Fault } from '../../../support/faults/toy-auth-server.js'

afterEach(closeServices)

describe('the command conformance', () => {
  // A fault that breaks several rules reports each of them, and no other.
  it.each<[Fault, string]>([
    ['one challenge for all', 'challenge-of-one-did'],
    ['challenge that may be stored', 'challenge-headers'],
    ['challenge good twice', 'sign-up-single-use login-single-use login-race'],
    ['challenge consumed late', 'login-race'],
    ['any signature', 'sign-up-wrong-signature login-wrong-signature login-wrong-domain login-malleable-signature'],
    ['any domain', 'login-wrong-domain'],
    ['high s', 'login-malleable-signature'],
    ['500 without sig', 'login-missing-fields no-server-errors'],
    ['stack for broken JSON', 'plain-text-errors no-leaks'],
    ['HTML errors', 'plain-text-errors'],
    ['errors without realm', 'www-authenticate'],
    ['no problem details', 'problem-json'],
    ['tokens that may be stored', 'no-store'],
    ['tokens for a day', 'access-token-life'],
    ['sub in upper case', 'access-token-form'],
    ['alg none', 'guard-alg-none'],
    ['unverified tokens', 'guard-alg-none guard-changed-token guard-foreign-key'],
    ['expired tokens', 'guard-expired-token'],
    ['tokens of the previous text', 'guard-expired-token'],
    ['same refresh token', 'refresh refresh-single-use refresh-race'],
    ['old refresh token', 'refresh-single-use refresh-race'],
    ['refresh token replaced late', 'refresh-race'],
    ['repeat without key', 'refresh-repeat'],
    ['logout that keeps the session', 'logout-ends-refresh ended-sessions-logout'],
    ['logout of all sessions', 'logout-one-session'],
    ['credentials for every origin', 'cors'],
    ['ended sessions never listed', 'ended-sessions-logout'],
    ['ended sessions listed by id', 'ended-sessions-logout'],
    ['list of another type', 'ended-sessions-form'],
    ['list of another issuer', 'ended-sessions-form'],
    ['list for another audience', 'ended-sessions-form'],
    ['list for an hour', 'ended-sessions-form'],
    ['list that another key signed', 'ended-sessions-signature'],
    ['list for own pages', 'ended-sessions-cors'],
    ['list for any after', 'ended-sessions-after'],
    ['list without ETag', 'ended-sessions-etag'],
    ['list that is never unchanged', 'ended-sessions-etag'],
    [
      'proof ignored at login',
      'device-bound-login device-refresh device-copied-token device-invalid-proof device-nonce'
    ],
    ['binding forgotten at refresh', 'device-refresh'],
    ['refresh from any device', 'device-copied-token'],
    ['proof that is not verified', 'device-invalid-proof'],
    ['proof for any path', 'device-invalid-proof'],
    ['proof for any method', 'device-invalid-proof'],
    ['proof without nonce', 'device-nonce'],
    ['assertion good twice', 'machine-single-use'],
    ['assertion of any key', 'machine-wrong-signature'],
    ['assertion for any audience', 'machine-wrong-claims'],
    ['assertion without end', 'machine-wrong-claims'],
    ['token of a machine with a session', 'machine-login'],
    ['token of a machine for a day', 'machine-login'],
    ['token for any resource', 'machine-wrong-request'],
    ['metadata of another issuer', 'machine-metadata'],
    ['new nonce never sent', 'device-bound-login device-refresh device-copied-token device-invalid-proof device-nonce']
  ])('detects "%s" with the expected check', async (fault, expected) => {
    const { app, clock } = startToyAuthServer(fault)
    const report = await checkService(app, { clock, domain: toyDomain })
    expect(listIds(report, 'failed').join(' ')).toBe(expected)
    expect(report.passed).toBe(report.total - expected.split(' ').length)
  })

  it.each<[string, string, (req: IncomingMessage, res: ServerResponse) => void]>([
    [
      'cookies that scripts read',
      'cookie-attributes',
      (_req, res) => changeCookies(res, (text) => text.replace(/; HttpOnly/i, ''))
    ],
    [
      'cookies of all subdomains',
      'cookie-attributes',
      (_req, res) => changeCookies(res, (text) => `${text}; Domain=service.example`)
    ],
    [
      'requests of foreign pages',
      'cookie-cross-origin',
      (req) => {
        delete req.headers.origin
        delete req.headers['sec-fetch-site']
      }
    ],
    [
      'cookies that a logout keeps',
      'cookie-logout',
      (req, res) => {
        if (req.url === '/logout') changeCookies(res, () => undefined)
      }
    ]
  ])('detects %s with the expected check', async (_what, expected, breakIt) => {
    const { app, clock } = await testApp({ useCookies: true })
    const report = await checkService(
      (req, res) => {
        breakIt(req, res)
        app(req, res)
      },
      { clock }
    )
    expect(listIds(report, 'failed').join(' ')).toBe(expected)
  })
})

/** Changes each cookie that a response sets. If `change` returns undefined, the cookie is not set. */
function changeCookies(res: ServerResponse, change: (cookie: string) => string | undefined): void {
  const { writeHead } = res
  res.writeHead = function (this: ServerResponse, ...args: unknown[]) {
    const cookies = [this.getHeader('set-cookie') ?? []].flat().map(String)
    const changed = cookies.flatMap((cookie) => change(cookie) ?? [])
    if (changed.length > 0) this.setHeader('Set-Cookie', changed)
    else this.removeHeader('Set-Cookie')
    return Reflect.apply(writeHead, this, args) as ServerResponse
  }
}
