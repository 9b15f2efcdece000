import { afterAll, beforeAll, describe, expect, it, jest } from '@jest/globals'
import { connect, type AddressInfo } from 'node:net'
import { DidAuthClient } from 'express-did-auth-client'
import { wallet as testWallet } from 'express-did-auth/testing'
import { afterTest } from '../support/fixtures/after-test.js'
import { createLoginText, createNumberedWallet } from '../support/fixtures/fixtures.js'
import { createAccount, createSiweText } from '../support/fixtures/siwe.js'
import { scaled } from '../support/fixtures/time-factor.js'
import { until } from '../support/fixtures/until.js'
import { runExample } from '../support/servers/run-script.js'
import { installedFrameworks, writeFrameworks } from '../support/engines/other-frameworks.js'

const wallet = createNumberedWallet(1)
const account = createAccount(1)
/** Headers by which proxies and Cloudflare tell the address of a client. */
const ADDRESS = { 'X-Real-IP': '192.0.2.7', 'CF-Connecting-IP': '192.0.2.7' }

type Headers = Record<string, string>

/** Client of a service at a URL, which includes its mount path. */
function createClient(url: string) {
  const get = (path: string, headers: Headers = {}) => fetch(url + path, { headers: { ...ADDRESS, ...headers } })
  const post = (path: string, body?: object, headers: Headers = {}) => {
    const type = { 'Content-Type': 'application/json' }
    return fetch(url + path, {
      method: 'POST',
      headers: { ...ADDRESS, ...type, ...headers },
      body: JSON.stringify(body)
    })
  }
  const read = async (response: Response): Promise<Record<string, string>> => {
    expect(response.status).toBe(200)
    return (await response.json()) as Record<string, string>
  }
  const logIn = async (): Promise<Response> => {
    const { did } = wallet
    const { challenge = '' } = await read(await post('/request-auth', { did }))
    return post('/auth', { did, sig: wallet.personalSign(createLoginText('service.example', challenge)) })
  }
  return { get, post, read, logIn }
}

/** Sends the head of a request and a part of its body, and returns the first line of the answer. */
function sendPart(url: string, head: string, part: string): Promise<string> {
  const { port, hostname, pathname } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname)
    afterTest(() => socket.destroy())
    socket.on('data', (data) => resolve(data.toString().split('\r\n')[0] ?? '')).on('error', reject)
    socket.write(`POST ${pathname} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n${head}\r\n\r\n${part}`)
  })
}

describe('the mounts of src/fetch/README.md', () => {
  let written = { folder: '', remove: (): void => undefined }

  beforeAll(async () => {
    written = await writeFrameworks()
  }, scaled(240_000))
  afterAll(() => written.remove())

  it.each(installedFrameworks)('$name: login, EIP-4361, lost answer, guard, logout, body limit', async (framework) => {
    const service = await framework.start(written.folder, false)
    afterTest(service.stop)
    const url = service.url + framework.mountPath
    const { get, post, read, logIn } = createClient(url)
    const { refreshToken } = await read(await logIn())

    const { nonce = '' } = await read(await post('/siwe/nonce'))
    const message = createSiweText(account, nonce, { issuedAt: new Date() })
    const signed = { message, signature: await account.signMessage({ message }) }
    expect(await read(await post('/siwe/verify', signed))).toMatchObject({ did: wallet.did })
    expect((await post('/siwe/verify', signed)).status).toBe(401)

    const key = { 'Idempotency-Key': 'k'.repeat(32) }
    const lost = await read(await post('/refresh-token', { refreshToken }, key))
    const repeated = await post('/refresh-token', { refreshToken }, key)
    expect(repeated.headers.get('idempotent-replayed')).toBe('true')
    expect((await read(repeated)).refreshToken).toBe(lost.refreshToken)

    const refused = await get('/profile')
    expect([refused.status, await refused.text()]).toEqual([401, 'Missing access token'])
    const Authorization = `DIDAuth ${lost.accessToken}`
    expect(await read(await get('/profile', { Authorization }))).toEqual({ did: wallet.did })

    expect((await post('/logout', undefined, { Authorization })).status).toBe(200)
    expect((await post('/refresh-token', { refreshToken: lost.refreshToken })).status).toBe(401)

    expect((await post('/auth', { did: 'x'.repeat(20_000) })).status).toBe(413)
    const chunk = `5000\r\n${'x'.repeat(0x5000)}\r\n`
    expect(await sendPart(`${url}/auth`, 'Transfer-Encoding: chunked', chunk)).toMatch(/^HTTP\/1.1 413 /)
    await read(await logIn())
  })

  it.each(installedFrameworks)('$name: cookies, and no requests of another site with them', async (framework) => {
    const service = await framework.start(written.folder, true)
    afterTest(service.stop)
    const { get, post, read, logIn } = createClient(service.url + framework.mountPath)
    const cookies = (await logIn()).headers.getSetCookie()
    expect(cookies.map((cookie) => cookie.split('=')[0])).toEqual(['authorization', 'refresh-token'])
    const Cookie = cookies.map((cookie) => cookie.slice(0, cookie.indexOf(';'))).join('; ')
    expect(await read(await get('/profile', { Cookie }))).toEqual({ did: wallet.did })
    expect((await post('/logout', undefined, { Cookie, Origin: 'https://evil.example' })).status).toBe(403)
    const cleared = (await post('/logout', undefined, { Cookie })).headers.getSetCookie()
    expect(cleared.map((cookie) => cookie.slice(0, cookie.indexOf(';')))).toEqual(['authorization=', 'refresh-token='])
    expect((await post('/refresh-token', undefined, { Cookie })).status).toBe(401)
  })
})

describe('examples/hono.mjs', () =>
  it('logs users of the client in, and keeps strangers out', async () => {
    jest.spyOn(console, 'warn').mockImplementation(() => undefined)
    const path = '../../examples/hono.mjs'
    const example = await runExample(() => import(path))
    afterTest(example.stop)
    await until(() => example.server.listening)
    const url = `http://127.0.0.1:${(example.server.address() as AddressInfo).port}`
    const client = new DidAuthClient({ url, wallet: testWallet('alice'), domain: 'localhost:3000' })
    expect((await client.fetch('/profile')).status).toBe(401)
    const { did } = await client.logIn()
    expect(await (await client.fetch('/profile')).json()).toEqual({ did })
    const note = await client.fetch('/notes', { method: 'POST', body: '{"text":"hello"}' })
    expect(await note.json()).toMatchObject({ note: { text: 'hello' } })
    expect(await (await client.fetch('/sessions', { method: 'DELETE' })).json()).toEqual({ ended: 1 })
    await client.logOut()
    expect(client.session).toBeUndefined()
  }))
