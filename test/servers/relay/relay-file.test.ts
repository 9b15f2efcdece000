import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { once } from 'node:events'
import { connect } from 'node:net'
import request from 'supertest'
import { getFile, logIn, postFile, startTestRelay, type TestRelay } from '../../support/servers/relay-app.js'
import { closeServices, servingPort } from '../../support/servers/server-client.js'
import { holdTime } from '../../support/fixtures/hold-time.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

const wallet = createNumberedWallet(1)
/** CID of `hello world`, as every IPFS node computes it. */
const HELLO_CID = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e'
/** CID of a file that no test posts. */
const MISSING_CID = 'bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq'

let relay: TestRelay
let token: string

beforeAll(async () => {
  relay = await startTestRelay()
  token = await logIn(relay, wallet)
})

afterAll(() => relay.end())

const postBody = (body: string, type = 'application/json') =>
  request(relay.listener).post('/file').set('Authorization', token).set('Content-Type', type).send(body)

describe('POST /file', () => {
  it('returns the CID, URL and lifetime of a file, which can then be read', async () => {
    const posted = await postFile(relay, token, 'hello world')
    expect([posted.status, posted.body]).toEqual([200, { url: `relay://${HELLO_CID}`, cid: HELLO_CID }])
    expect(posted.headers['file-expires-in']).toBe('604800')
    const fetched = await getFile(relay, token, HELLO_CID)
    expect([fetched.status, fetched.text]).toEqual([200, '{"file":"hello world"}'])
    expect(fetched.headers['content-type']).toBe('application/json; charset=utf-8')
  })

  it('returns one CID for one content, in any spelling and from any user', async () => {
    const otherToken = await logIn(relay, createNumberedWallet(2))
    for (const body of [
      '{"file":"hello world"}',
      ' { "file" : "hello world" } ',
      '{"file":"hello\\u0020world"}',
      '{"rest":[1,{}],"file":"hello world"}',
      '{"file":"first","file":"hello world"}'
    ]) {
      expect((await postBody(body)).body.cid).toBe(HELLO_CID)
      expect((await getFile(relay, otherToken, HELLO_CID)).text).toBe('{"file":"hello world"}')
    }
    expect((await postFile(relay, otherToken, 'hello world')).body.cid).toBe(HELLO_CID)
  })

  it('stores the exact text, which GET then returns', async () => {
    const file = '\ufeff"\\\n\u0000\u2028é€💥</script>'
    const { body } = await postFile(relay, token, file)
    const fetched = await getFile(relay, token, body.cid)
    expect(fetched.body).toEqual({ file })
    expect(Number(fetched.headers['content-length'])).toBe(Buffer.byteLength(fetched.text))
  })

  it.each([
    ['{"file":7}', 'application/json', 'Invalid content'],
    ['{"file":"a"', 'application/json', 'Malformed JSON'],
    ['file=a', 'application/x-www-form-urlencoded', 'Invalid content'],
    ['', 'application/json', 'Invalid content']
  ])('answers 400 to %s', async (body, type, refusal) => {
    const { status, text } = await postBody(body, type)
    expect([status, text]).toEqual([400, refusal])
  })

  it('refuses a request without a token before the file has arrived', async () => {
    const socket = connect(await servingPort(relay.listener), '127.0.0.1')
    const answered = once(socket, 'data')
    socket.write('POST /file HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n')
    socket.write('{"file":"half of')
    const answer = String(await answered)
    expect(answer).toMatch(/^HTTP\/1\.1 401 /)
    expect(answer).toContain('WWW-Authenticate: DIDAuth realm="https://relay.example"')
    closeServices()
  })
})

describe('GET /file/{cid}', () => {
  it.each([
    MISSING_CID,
    '',
    '/',
    'a/b',
    '%2F',
    '%2e%2e%2f',
    '%ff',
    '%',
    '%E0%A4%A',
    '..',
    '__proto__',
    'constructor',
    'QmWATWQ7fVPP2EFGu71UkfnqhYXDYH566qy47CnJDgvs8u',
    'a'.repeat(5_000),
    '?a=b',
    '%00',
    'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5'
  ])('answers 404 when the path contains %s', async (name) => {
    for (const verb of ['get', 'head'] as const) {
      const { status, text } = await request(relay.listener)[verb](`/file/${name}`).set('Authorization', token)
      expect([status, text]).toEqual([404, verb === 'get' ? 'Not found' : undefined])
    }
  })

  it('answers 404 without a CID, and with more than a CID', async () => {
    const { cid } = (await postFile(relay, token, 'a')).body
    for (const path of ['/file', '/file?a', `/file/${cid}/a`, `/file/${cid.toUpperCase()}`, `/file/ipfs/${cid}`]) {
      expect((await request(relay.listener).get(path).set('Authorization', token)).status).toBe(404)
    }
    expect((await request(relay.listener).get(`/file/${cid}?a=b`).set('Authorization', token)).status).toBe(200)
  })

  it('answers HEAD with the headers of GET, and no body', async () => {
    const { cid } = (await postFile(relay, token, 'hello')).body
    const { status, text, headers } = await request(relay.listener).head(`/file/${cid}`).set('Authorization', token)
    expect([status, text, headers['content-length']]).toEqual([200, undefined, '16'])
    expect(headers['file-expires-in']).toBe('604800')
  })

  it.each([
    ['cached', 1],
    ['streamed', 1_048_577]
  ])('returns the remaining lifetime of a %s file, which a new post restarts', async (_what, length) => {
    const file = 'e'.repeat(length)
    const { cid } = (await postFile(relay, token, file)).body
    const lifetimes: unknown[] = []
    for (const seconds of [0, 50]) {
      relay.clock.seconds += seconds
      for (let count = 0; count < 2; count += 1) {
        lifetimes.push((await getFile(relay, token, cid)).headers['file-expires-in'])
      }
    }
    await postFile(relay, token, file)
    relay.clock.seconds += 1
    lifetimes.push((await getFile(relay, token, cid)).headers['file-expires-in'])
    expect(lifetimes).toEqual(['604800', '604800', '604750', '604750', '604799'])
  })
})

describe('other methods and paths', () => {
  it.each(['put', 'patch', 'delete'] as const)('are answered 404: %s', async (verb) => {
    for (const path of ['/file', `/file/${HELLO_CID}`, '/auth', '/request-auth', '/']) {
      expect((await request(relay.listener)[verb](path).set('Authorization', token)).status).toBe(404)
    }
  })

  it('are answered 404, also if the auth server has them', async () => {
    for (const path of ['/signup', '/request-signup', '/refresh-token', '/logout', `/file/${HELLO_CID}`]) {
      expect((await request(relay.listener).post(path).set('Authorization', token).send({})).status).toBe(404)
    }
    expect((await request(relay.listener).get(`/request-auth/${wallet.did}`)).status).toBe(404)
  })
})

describe('GET /ready', () => {
  beforeEach(() => {
    holdTime()
  })
  afterEach(() => {
    jest.restoreAllMocks()
  })

  it('reports store and signer, and answers 503 if the file store is unavailable', async () => {
    const otherRelay = await startTestRelay()
    const ready = await request(otherRelay.listener).get('/ready').expect(200)
    expect(ready.body).toEqual({
      status: 'ready',
      dependencies: { store: 'ok', clock: 'ok', signer: 'ok', ipfs: 'none' }
    })
    await otherRelay.end()
    const closed = await request((await startClosed()).listener)
      .get('/ready')
      .expect(503)
    expect(closed.body).toMatchObject({
      status: 'not ready',
      dependencies: { store: 'unavailable', clock: 'ok', signer: 'ok', ipfs: 'none' }
    })
  })
})

/** Starts a relay and closes its stores. */
async function startClosed(): Promise<TestRelay> {
  const closed = await startTestRelay()
  await closed.end()
  return closed
}

describe('the log of the relay', () =>
  it('names routes, and contains no CID, DID or token', async () => {
    const otherRelay = await startTestRelay()
    const otherToken = await logIn(otherRelay, wallet)
    const { cid } = (await postFile(otherRelay, otherToken, 'hello world')).body
    await getFile(otherRelay, otherToken, cid)
    await getFile(otherRelay, otherToken, 'missing')
    await request(otherRelay.listener).post('/auth').send({ jwt: 'a.b.c' })
    const requests = otherRelay.log().filter(({ event }) => event === 'request')
    expect(requests.map(({ method, route, status }) => [method, route, status])).toEqual([
      ['POST', '/request-auth', 200],
      ['POST', '/auth', 200],
      ['POST', '/file', 200],
      ['GET', '/file', 200],
      ['GET', '/file', 404],
      ['POST', '/auth', 401]
    ])
    const text = JSON.stringify(otherRelay.log())
    for (const secret of [cid, wallet.did.slice(-40), otherToken.slice(-20), 'hello world'])
      expect(text).not.toContain(secret)
    await otherRelay.end()
  }))
