import { beforeEach, describe, expect, it } from '@jest/globals'
import express from 'express'
import { accessTokenVerifier, requireToken } from 'express-did-auth/verify'
import { startServer } from '../support/fixtures/client-error.js'
import {
  alice,
  requestStatus,
  type ClientService,
  fakeClientTime,
  startClientService
} from '../support/servers/client-service.js'
import { serviceWallet } from '../support/fixtures/fixtures.js'
import { createThrowing } from '../support/fixtures/refusal.js'

let service: ClientService
/** Another origin. */
let elsewhere: string

beforeEach(async () => {
  service = await startClientService(
    {},
    {
      after(app, requireDid) {
        app.post('/notes', requireDid, express.text({ type: '*/*' }), (req, res) => res.json({ note: req.body }))
        app.get('/checked', requireDid.with({ checkSession: true }), (_req, res) => res.send('OK'))
        app.get('/refused', (_req, res) => void res.status(401).json({ code: 'ERR_OF_THE_APP' }))
        app.get('/forbidden', (_req, res) => void res.status(403).send('Not yours'))
        app.get('/moved', (_req, res) => res.redirect('/me'))
        app.get('/left', requireDid, (_req, res) => res.redirect(elsewhere))
      }
    }
  )
})

const readSentToken = (): string | null => service.exchanges.at(-1)!.headers.get('authorization')
/** Returns a client whose token has expired only at the service: the client's clock is stopped. */
const staleClient = () => service.outdated({ clock: { nowSeconds: () => 0 } })

describe('DidAuthClient.fetch', () => {
  it.each([
    ['a path', () => '/me'],
    ['a URL', () => `${service.url}/me`],
    ['a URL object', () => new URL('/me', service.url)],
    ['a request', () => new Request(`${service.url}/me`)]
  ])('sends the token with %s', async (_name, input) => {
    const auth = await service.signedIn()
    const answer = await auth.fetch(input())
    expect(await answer.json()).toMatchObject({ user: { did: auth.session!.did } })
    expect(readSentToken()).toMatch(/^DIDAuth ey/)
  })

  it('sends no token without a session, and returns the refusal', async () => {
    const answer = await service.client().fetch('/me')
    expect(answer.status).toBe(401)
    expect(readSentToken()).toBeNull()
  })

  it('sends no token to another origin, unless the option origins lists it', async () => {
    const url = await startServer(express().get('/open', (req, res) => void res.json(req.headers)))
    for (const origins of [[], [url]]) {
      const auth = await service.signedIn({ origins })
      const headers = (await (await auth.fetch(`${url}/open`)).json()) as Record<string, string>
      expect('authorization' in headers).toBe(origins.length > 0)
    }
  })

  it("does not change a caller's own Authorization", async () => {
    const auth = await service.signedIn()
    await auth.fetch('/refused', { headers: { Authorization: 'Basic abc' } })
    expect(readSentToken()).toBe('Basic abc')
  })

  it.each([
    [{}, '*/*, application/problem+json'],
    [{ Accept: 'text/csv' }, 'text/csv, application/problem+json']
  ])('requests problem details in addition to %j', async (headers, expected) => {
    await service.client().fetch('/refused', { headers })
    expect(service.exchanges.at(-1)!.headers.get('accept')).toBe(expected)
  })

  it.each([
    ['/refused', 401, '{"code":"ERR_OF_THE_APP"}'],
    ['/forbidden', 403, 'Not yours'],
    ['/nowhere', 404, expect.stringContaining('Cannot GET')]
  ])('returns a response with %s unchanged, and sends the request once', async (path, status, text) => {
    const auth = await service.signedIn()
    const answer = await auth.fetch(path)
    expect([answer.status, await answer.text()]).toEqual([status, text])
    expect(service.paths().filter((sentPath) => sentPath === path)).toHaveLength(1)
    expect(auth.session).toBeDefined()
  })

  it.each(['ERR_ACCESS_TOKEN_MISSING', 'ERR_DUPLICATE_COOKIE', 'ERR_ACCESS_TOKEN_OTHER'])(
    'returns a 401 with the code %s, and keeps the session',
    async (code) => {
      const auth = await service.signedIn()
      service.intercept(({ path }) => (path === '/me' ? Response.json({ code }, { status: 401 }) : undefined))
      expect(await (await auth.fetch('/me')).json()).toEqual({ code })
      expect([service.count('/refresh-token'), auth.session === undefined]).toEqual([0, false])
    }
  )

  it('refreshes once if the service has a new key, and sends the body again', async () => {
    const auth = await service.signedIn()
    const old = auth.session
    service.intercept(({ path, headers }) =>
      path === '/notes' && headers.get('authorization') === firstToken
        ? Response.json({ code: 'ERR_ACCESS_TOKEN' }, { status: 401 })
        : undefined
    )
    await auth.fetch('/me')
    const firstToken = readSentToken()
    service.exchanges.length = 0
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => auth.fetch('/notes', { method: 'POST', body: 'milk' }))
    )
    expect(await Promise.all(answers.map((answer) => answer.json()))).toEqual(Array(5).fill({ note: 'milk' }))
    expect([service.count('/refresh-token'), auth.session?.sessionId]).toEqual([1, old?.sessionId])
  })

  it('refreshes once if every token is refused, and returns the refusals', async () => {
    const auth = await service.signedIn()
    service.intercept(({ path }) =>
      path === '/me' ? Response.json({ code: 'ERR_ACCESS_TOKEN' }, { status: 401 }) : undefined
    )
    for (let count = 0; count < 3; count += 1) expect(await requestStatus(auth)).toBe(401)
    expect([service.count('/refresh-token'), service.count('/me')]).toEqual([1, 4])
    service.clock.seconds += 700
    service.intercept(() => undefined)
    expect(await requestStatus(auth)).toBe(200)
  })

  it('notices a revoked session on a route that checks it', async () => {
    fakeClientTime(200)
    const auth = await service.signedIn()
    await service.requireDid.sessions.revokeAll(alice.did)
    await expect(auth.fetch('/checked')).rejects.toMatchObject({ code: 'SESSION_ENDED', reason: 'revoked' })
    expect(auth.session).toBeUndefined()
  })

  it('sends a body again after a refresh', async () => {
    const auth = await staleClient()
    const answer = await auth.fetch('/notes', { method: 'POST', body: 'milk' })
    expect(await answer.json()).toEqual({ note: 'milk' })
    expect(service.paths().slice(2)).toEqual(['/notes', '/refresh-token', '/notes'])
  })

  it('returns the 401 if the body was a stream, and uses the new token next time', async () => {
    const auth = await staleClient()
    const stream = new Blob(['milk']).stream()
    const answer = await auth.fetch('/notes', { method: 'POST', body: stream, duplex: 'half' })
    expect(answer.status).toBe(401)
    expect(await answer.json()).toMatchObject({ code: 'ERR_ACCESS_TOKEN_EXPIRED' })
    expect(service.paths().slice(2)).toEqual(['/notes'])
  })

  it('retries once, and returns the second refusal', async () => {
    const auth = await staleClient()
    service.intercept(({ path }) => {
      if (path === '/me') service.clock.seconds += 700
      return undefined
    })
    expect((await auth.fetch('/me')).status).toBe(401)
    expect(service.paths().slice(2)).toEqual(['/me', '/refresh-token', '/me'])
  })

  it('follows redirects like fetch: with the token on its own origin, without it elsewhere', async () => {
    const authorizations: (string | undefined)[] = []
    const foreign = express().use((req, res) => {
      authorizations.push(req.headers.authorization)
      res.send('elsewhere')
    })
    elsewhere = await startServer(foreign)
    const auth = await service.signedIn()
    const ownOrigin = await auth.fetch('/moved')
    expect(await ownOrigin.json()).toMatchObject({ user: { did: auth.session!.did } })
    const other = await auth.fetch('/left')
    expect([other.status, await other.text(), authorizations]).toEqual([200, 'elsewhere', [undefined]])
    expect(readSentToken()).toMatch(/^DIDAuth ey/)
    expect((await auth.fetch('/left', { redirect: 'manual' })).status).toBe(302)
  })

  it.each([
    ['/notes', '/api/notes'],
    ['notes', '/api/notes'],
    ['/did:ethr:0x1/a?b#c', '/api/did:ethr:0x1/a'],
    ['?b', '/api/'],
    [() => `${service.url}/notes`, '/notes'],
    [() => new URL('/notes', service.url), '/notes'],
    [() => new Request(`${service.url}/notes`), '/notes']
  ])('resolves paths against a url with a path, and keeps an absolute URL: %p', async (requested, path) => {
    const client = service.client({ url: `${service.url}/api/` })
    await client.fetch(typeof requested === 'string' ? requested : requested())
    expect(service.paths()).toEqual([path])
  })

  it('sends a token to no other host, however its path is written', async () => {
    const hosts: string[] = []
    const fetch: typeof globalThis.fetch = async (input, init) => {
      const { href, origin } = new URL(input instanceof Request ? input.url : input)
      hosts.push(href)
      const isOurs = origin === service.url
      if (!isOurs) expect(new Headers(init?.headers).has('authorization')).toBe(false)
      return isOurs ? service.fetch(input, init) : new Response()
    }
    const auth = await service.signedIn({ fetch })
    for (const path of [
      '//evil.example',
      '\\\\evil.example',
      '/\\evil.example',
      '/\t/evil.example',
      'https:evil.example'
    ]) {
      await auth.fetch(path)
    }
    expect(hosts.slice(2)).toEqual([
      'http://evil.example/',
      'http://evil.example/',
      `${service.url}//evil.example`,
      `${service.url}//evil.example`,
      'https://evil.example/'
    ])
  })

  it.each(['capacitor://localhost', 'file:///app', 'ionic://localhost'])(
    'works with url null on %s, whose origin is null, as in every app',
    (url) => {
      const text = `${url}: not http(s)`
      expect(() => service.client({ origins: [url] })).toThrow(new TypeError(text))
      expect(() => service.client({ url })).toThrow(new TypeError(text))
    }
  )

  it('names CORS as a possible cause: a page cannot distinguish it from a lost connection', async () => {
    const fetch = createThrowing(new TypeError('Failed to fetch'))
    await expect(service.client({ fetch }).logIn()).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: `POST ${service.url}/request-auth: TypeError: Failed to fetch`,
      userMessage: 'The service cannot be reached. Check your network, and try again.'
    })
  })

  it('throws UNAVAILABLE if the service is unreachable, and the reason of an aborted signal', async () => {
    const auth = await service.signedIn()
    await service.close()
    await expect(auth.fetch('/me')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    const signal = AbortSignal.abort(new Error('left'))
    await expect(auth.fetch('/me', { signal })).rejects.toEqual(new Error('left'))
  })
})

describe('DidAuthClient.fetch to a second service that reads the list of ended sessions', () => {
  let orders: string

  beforeEach(async () => {
    fakeClientTime(200, 500, 1_000)
    service = await startClientService({ endedSessions: true })
    const { clock } = service
    const endedSessions = { url: `${service.url}/.well-known/ended-sessions` }
    const audience = 'https://service.example'
    const verify = accessTokenVerifier({ issuer: serviceWallet.did, audience, endedSessions, clock })
    orders = await startServer(express().get('/orders', requireToken(verify), (_req, res) => void res.send('OK')))
  })

  it('refreshes once after a logout on another device, and reports that the session has ended', async () => {
    const auth = await service.signedIn({ origins: [orders] })
    await service.requireDid.sessions.revoke(auth.session!.sessionId)
    const ended = { code: 'SESSION_ENDED', reason: 'revoked' }
    await expect(auth.fetch(`${orders}/orders`)).rejects.toMatchObject(ended)
    expect([service.count('/orders'), service.count('/refresh-token'), auth.session]).toEqual([1, 1, undefined])
  })

  it('keeps the session if the service cannot be reached for the refresh', async () => {
    const auth = await service.signedIn({ origins: [orders] })
    const { session } = auth
    await service.requireDid.sessions.revoke(session!.sessionId)
    service.lose('/refresh-token')
    await expect(auth.fetch(`${orders}/orders`)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(auth.session).toEqual(session)
  })

  it('refreshes once if the session is active at the service, returns the refusals, and keeps the session', async () => {
    const auth = await service.signedIn({ origins: [orders] })
    const refused = { code: 'ERR_SESSION_ENDED' }
    service.intercept(({ path }) => (path === '/orders' ? Response.json(refused, { status: 401 }) : undefined))
    for (let count = 0; count < 3; count += 1)
      expect(await (await auth.fetch(`${orders}/orders`)).json()).toEqual(refused)
    expect([service.count('/refresh-token'), service.count('/orders')]).toEqual([1, 4])
    expect(await requestStatus(auth)).toBe(200)
  })
})
