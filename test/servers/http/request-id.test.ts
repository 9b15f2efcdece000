import { describe, expect, it } from '@jest/globals'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { memoryStore } from 'express-did-auth'
import { setRequestId } from 'express-did-auth/server-kit'
import request from 'supertest'
import { listen } from '../../../servers/http/listen.js'
import { exchange } from '../../support/faults/malformed.js'
import { afterTest } from '../../support/fixtures/after-test.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'
import { createThrowing } from '../../support/fixtures/refusal.js'
import { startTestRelay } from '../../support/servers/relay-app.js'
import { testApp, testAuthServer, type Host } from '../../support/servers/test-app.js'
import { testVault } from '../../support/servers/vault-app.js'

const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Sends a request whose headers may repeat. Returns the ids in the response. */
async function sendIds(listener: RequestListener, ids: readonly string[]): Promise<string[]> {
  const server = createServer(listener).listen(0)
  afterTest(() => void server.close())
  const lines = ids.map((id) => `X-Request-Id: ${id}\r\n`).join('')
  const bytes = Buffer.from(`GET /health HTTP/1.1\r\nHost: a\r\n${lines}Connection: close\r\n\r\n`)
  const { text } = await exchange((server.address() as AddressInfo).port, bytes)
  return [...text.matchAll(/^X-Request-Id: (.*)\r$/gim)].map(([, id]) => id!)
}

describe('X-Request-Id', () => {
  it.each(['a', 'A.b_c-9', 'x'.repeat(64)])('is taken over: %s', async (id) => {
    const { listener } = await testAuthServer()
    expect(await sendIds(listener, [id])).toEqual([id])
  })

  it.each([
    [[]],
    [['']],
    [['x'.repeat(65)]],
    [['a b']],
    [['a,b']],
    [['a/b']],
    [['é']],
    [['a"}']],
    [['a', 'b']],
    [['a', 'a']]
  ])('is replaced by a random one: %j', async (ids) => {
    const { listener } = await testAuthServer()
    const [id, ...others] = await sendIds(listener, ids)
    expect(id).toMatch(UUID)
    expect(others).toEqual([])
  })

  it('differs between two requests', async () => {
    const { listener } = await testAuthServer()
    expect(await sendIds(listener, [])).not.toEqual(await sendIds(listener, []))
  })

  const servers: [string, () => Promise<{ listener: RequestListener; close(): Promise<void> }>][] = [
    ['auth', () => testAuthServer()],
    [
      'relay',
      async () => {
        const relay = await startTestRelay()
        return { ...relay, close: () => relay.end() }
      }
    ],
    ['vault', () => testVault()]
  ]
  it.each(servers)('is a member of problem details at %s, and never in the text', async (_name, start) => {
    const server = await start()
    afterTest(() => server.close())
    for (const [method, path] of [
      ['get', '/nothing/at/all'],
      ['post', '/auth'],
      ['get', '/%ff']
    ] as const) {
      const send = (accept: string) =>
        request(server.listener)[method](path).set({ 'X-Request-Id': 'mine-1', Accept: accept })
      const problem = await send('application/problem+json')
      expect([path, (JSON.parse(problem.text) as { requestId: unknown }).requestId]).toEqual([path, 'mine-1'])
      const plain = await send('text/plain')
      expect(plain.headers['x-request-id']).toBe('mine-1')
      expect(plain.text).not.toContain('mine-1')
    }
  })

  it('is in the answer to a guard, whose user may be unknown', async () => {
    const { listener } = await testAuthServer()
    const { text } = await request(listener).get('/me').set({ 'X-Request-Id': 'q', Accept: 'application/problem+json' })
    expect(JSON.parse(text)).toMatchObject({ code: 'ERR_ACCESS_TOKEN_MISSING', requestId: 'q' })
  })
})

describe('each log line of a request', () => {
  it('has its id: refusals and warnings', async () => {
    const { listener, log } = await testAuthServer({ LOG_LEVEL: 'debug' })
    await request(listener).post('/auth').set({ 'X-Request-Id': 'id-1', 'X-Forwarded-For': '1.2.3.4' }).expect(401)
    const lines = log().flatMap(({ event, requestId }) => (event === 'configuration' ? [] : [[event, requestId]]))
    expect(lines).toEqual([
      ['trust-proxy-off', 'id-1'],
      ['request-refused', 'id-1'],
      ['first-refusal', 'id-1'],
      ['request', 'id-1']
    ])
  })

  const before: Host['before'] = (app) =>
    app.use((req, _res, next) => {
      setRequestId(req, 'id-2')
      next()
    })

  it('has its id: lines of flows', async () => {
    const { logIn, refresh, clock, log } = await testApp({}, { before })
    const { refreshToken } = await logIn()
    await refresh(refreshToken).expect(200)
    clock.seconds += 11
    await refresh(refreshToken).expect(401)
    const lines = log.flatMap(({ fields }) => (fields.event === 'configuration' ? [] : [fields]))
    expect(lines).toEqual([
      { event: 'refresh-token-reused', requestId: 'id-2', sessionId: expect.any(String) },
      { event: 'first-refusal', code: 'ERR_REFRESH_TOKEN_REUSED', requestId: 'id-2' }
    ])
  })

  it('has its id: failures of describeSession and onSecurityEvent', async () => {
    const fail = createThrowing(new Error('broken'))
    const { logIn, me, logOut, log } = await testApp({ describeSession: fail, onSecurityEvent: fail }, { before })
    const { accessToken } = await logIn()
    await me(accessToken).expect(200)
    await logOut(accessToken).expect(200)
    const lines = log.flatMap(({ fields }) => (fields.event === 'configuration' ? [] : [fields]))
    expect(lines).toEqual([
      { event: 'session-description-failed', requestId: 'id-2' },
      { event: 'security-listener-failed', requestId: 'id-2' },
      { event: 'security-listener-failed', requestId: 'id-2' }
    ])
  })

  it('has its id: refused proofs whose event the application does not receive', async () => {
    const onSecurityEvent = createThrowing(new Error('broken'))
    const { post, log } = await testApp({ onSecurityEvent }, { before })
    await post('/auth', { did: createNumberedWallet(1).did, sig: '0x' }).expect(401)
    const lines = log.flatMap(({ fields }) => (fields.event === 'security-listener-failed' ? [fields.requestId] : []))
    expect(lines.length).toBeGreaterThan(0)
    expect(new Set(lines)).toEqual(new Set(['id-2']))
  })

  it('has its id: the refusal of a guard', async () => {
    const { listener, log } = await testAuthServer({ LOG_LEVEL: 'debug' })
    await request(listener).get('/me').set('X-Request-Id', 'id-3').expect(401)
    const lines = log().flatMap(({ event, requestId }) => (event === 'configuration' ? [] : [[event, requestId]]))
    expect(lines).toEqual([
      ['request-refused', 'id-3'],
      ['first-refusal', 'id-3'],
      ['request', 'id-3']
    ])
  })

  it('has its id: the reason why the server is not ready', async () => {
    const store = memoryStore()
    store.ping = () => Promise.reject(new Error('broken'))
    const { listener, log } = await testAuthServer({}, { store })
    await request(listener).get('/ready').set('X-Request-Id', 'r').expect(503)
    expect(log()).toContainEqual(expect.objectContaining({ event: 'not-ready', requestId: 'r' }))
  })
})

describe('an answer that Node writes', () => {
  it('has the id of the request that its client did not finish, and none without request', async () => {
    const { listener } = await testAuthServer()
    const server = await listen({ port: 0, host: '127.0.0.1', variable: 'PORT' })
    afterTest(() => server.stop())
    server.serve(listener)
    const head = 'POST /auth HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n'
    const { text } = await exchange(server.port, Buffer.from(`${head}X-Request-Id: mine\r\n\r\nnot a chunk\r\n`))
    expect(text).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n(?:.*\r\n)*X-Request-Id: mine\r\n/)
    const malformed = await exchange(server.port, Buffer.from('no request\r\n\r\n'))
    expect(malformed.text).toMatch(/^HTTP\/1\.1 400 /)
    expect(malformed.text).not.toMatch(/X-Request-Id/i)
  })
})
