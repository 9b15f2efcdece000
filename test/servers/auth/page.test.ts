import { beforeAll, describe, expect, it } from '@jest/globals'
import { memoryStore } from 'express-did-auth'
import { pino } from 'pino'
import request from 'supertest'
import { createAuthApp } from '../../../servers/auth/app.js'
import { loadPage, type Page } from '../../../servers/auth/page.js'
import type { ServerName } from '../../../servers/config/read-env.js'
import { createApp } from '../../../servers/http/create-app.js'
import { scriptFile } from '../../support/servers/run-script.js'
import { testServer } from '../../support/servers/test-app.js'

const folder = scriptFile('servers/page')
const silent = pino({ level: 'silent' })
const allServiceUrls = new Map<ServerName, string>([
  ['auth', 'https://auth.example'],
  ['relay', 'https://relay.example/files'],
  ['vault', 'https://vault.example']
])

describe('the page of the auth server', () => {
  let page: Page
  beforeAll(() => {
    page = loadPage(folder, silent)!
  })

  /** Creates the auth server with the page, for these service URLs. */
  const serve = (serviceUrls: ReadonlyMap<ServerName, string>, variables: Record<string, string> = {}) =>
    testServer('auth', variables, memoryStore(), (shell) => createAuthApp({ ...shell, page, serviceUrls }))

  it.each(['/', '/open'])('is served at %s with the URLs of relay and vault', async (path) => {
    const { listener } = await serve(allServiceUrls)
    const { text, headers } = await request(listener).get(path).expect(200)
    expect(headers['content-type']).toBe('text/html; charset=utf-8')
    expect(text).toContain('data-auth="https://auth.example" data-siwe="true" data-relay="https://relay.example/files"')
    expect(text).toContain(
      'data-vault="https://vault.example" data-mode="header" data-open-reads="false" data-file-bytes="8388608"'
    )
  })

  it('may connect only to itself, relay and vault, and runs nothing inline', async () => {
    const { listener } = await serve(allServiceUrls)
    const { headers } = await request(listener).get('/').expect(200)
    expect(headers['content-security-policy']).toBe(
      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
        "connect-src 'self' https://relay.example https://vault.example; " +
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
  })

  it('stays connected to the popup of a wallet (Cross-Origin-Opener-Policy)', async () => {
    const { listener } = await serve(allServiceUrls)
    const opener = 'cross-origin-opener-policy'
    expect((await request(listener).get('/')).headers[opener]).toBe('same-origin-allow-popups')
    expect((await request(listener).get('/me')).headers[opener]).toBe('same-origin')
  })

  it('connects only to itself if only auth runs', async () => {
    const { listener } = await serve(new Map([['auth', 'https://auth.example']]))
    const { text, headers } = await request(listener).get('/').expect(200)
    expect(headers['content-security-policy']).toContain("connect-src 'self';")
    expect(text).toContain('data-relay="" data-vault=""')
  })

  it('names cookie mode with USE_COOKIES', async () => {
    const { listener } = await serve(allServiceUrls, { USE_COOKIES: 'true' })
    expect((await request(listener).get('/')).text).toContain('data-mode="cookie"')
  })

  it('escapes the HTML characters of a URL', async () => {
    const { listener } = await serve(new Map([['relay', 'https://relay.example/?a&b<script>']]))
    expect((await request(listener).get('/')).text).toContain(
      'data-relay="https://relay.example/?a&#38;b&#60;script&#62;"'
    )
  })

  it.each([
    ['/page.js', 'text/javascript; charset=utf-8'],
    ['/open.js', 'text/javascript; charset=utf-8'],
    ['/page.css', 'text/css; charset=utf-8'],
    ['/page.svg', 'image/svg+xml']
  ])('includes %s, which browsers revalidate by its ETag', async (path, type) => {
    const { listener } = await serve(allServiceUrls)
    const { headers } = await request(listener).get(path).expect(200)
    expect(headers).toMatchObject({ 'content-type': type, 'cache-control': 'no-cache' })
    const etag = String(headers.etag)
    for (const value of [etag, `W/${etag}`]) await request(listener).get(path).set('If-None-Match', value).expect(304)
    await request(listener).get(path).set('If-None-Match', '"other"').expect(200)
  })

  it('contains no inline script or style', () =>
    expect(['/', '/open'].map((path) => page.get(path)!.bytes).join()).not.toMatch(
      /<script(?![^>]* src=)|<style|\sstyle=|\son[a-z]+=/
    ))

  it('is missing without a build: logs one warning, and answers 404', async () => {
    const warnings: unknown[] = []
    const log = pino({ level: 'warn' }, { write: (line: string) => warnings.push(JSON.parse(line)) })
    expect(loadPage(`${folder}/none`, log)).toBeUndefined()
    expect(warnings).toMatchObject([{ event: 'page-missing', reason: 'it does not exist' }])
    const { listener } = await testServer('auth', {}, memoryStore(), createAuthApp)
    await request(listener).get('/').expect(404)
  })
})

describe('CORS headers for the page', () => {
  const origin = 'https://auth.example'
  const requestPreflight = async (name: ServerName, variables: Record<string, string>, from: string) => {
    const { listener } = await testServer(name, variables, memoryStore(), (shell) => ({
      listener: createApp({ ...shell, serviceUrls: allServiceUrls }, [], []),
      ready: Promise.resolve(),
      close: () => Promise.resolve()
    }))
    const { headers } = await request(listener)
      .options('/file')
      .set({ Origin: from, 'Access-Control-Request-Method': 'POST' })
    return headers
  }

  it.each(['relay', 'vault'] as const)(
    'are sent by the %s for the origin of auth, with the request headers of its clients',
    async (name) => {
      expect(await requestPreflight(name, {}, origin)).toMatchObject({
        'access-control-allow-origin': origin,
        'access-control-allow-headers':
          'Authorization,Content-Type,DID-Approval,DPoP,Idempotency-Key,If-Match,If-None-Match,Vault-Key'
      })
    }
  )

  it('are sent for no other origin, not by auth itself, and not without the page', async () => {
    const allowed = 'access-control-allow-origin'
    expect(await requestPreflight('vault', {}, 'https://relay.example')).not.toHaveProperty(allowed)
    expect(await requestPreflight('auth', {}, origin)).not.toHaveProperty(allowed)
    expect(await requestPreflight('vault', { PAGE: 'false' }, origin)).not.toHaveProperty(allowed)
  })

  it('are sent in addition to those for CORS_ORIGINS', async () => {
    const variables = { CORS_ORIGINS: 'https://app.example' }
    for (const from of [origin, 'https://app.example']) {
      expect(await requestPreflight('relay', variables, from)).toMatchObject({ 'access-control-allow-origin': from })
    }
  })
})
