import { describe, expect, it } from '@jest/globals'
import { FetchRequest, parseTarget, toResponse } from '../../src/fetch/fetch-request.js'
import { refusal } from '../support/fixtures/refusal.js'
import { until } from '../support/fixtures/until.js'

const url = 'https://service.example/auth'
const create = (request: Request, clientAddress?: unknown): FetchRequest =>
  new FetchRequest(request, parseTarget(request.url, ''), clientAddress)

/** Creates a request whose body is a stream, and counts the chunks that were pulled. */
function createStreamed(chunkCount: number, headers: Record<string, string> = {}, end?: Error) {
  const seen = { pulled: 0, isCancelled: false }
  const stream = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        seen.pulled += 1
        if (seen.pulled <= chunkCount) controller.enqueue(new Uint8Array(1000))
        else if (end === undefined) controller.close()
        else controller.error(end)
      },
      cancel: () => void (seen.isCancelled = true)
    },
    { highWaterMark: 0 }
  )
  return { seen, request: create(new Request(url, { method: 'POST', headers, body: stream, duplex: 'half' })) }
}

describe('the address of a client', () => {
  const findProxy = (clientAddress: unknown, forwarded?: string): string | undefined => {
    const headers: Record<string, string> = forwarded === undefined ? {} : { 'X-Forwarded-For': forwarded }
    return create(new Request(url, { headers }), clientAddress).unknownProxy
  }

  it.each([
    ['127.0.0.1', '192.0.2.1'],
    ['10.0.0.1', '192.0.2.1, 10.0.0.2'],
    ['::1', '2001:db8::1'],
    ['192.0.2.1', 'unknown']
  ])('is that of a proxy if %s is not in X-Forwarded-For: %s', (clientAddress, forwarded) => {
    expect(findProxy(clientAddress, forwarded)).toMatch(/^X-Forwarded-For does not contain clientAddress/)
  })

  it.each([
    ['192.0.2.1', undefined],
    ['192.0.2.1', '192.0.2.1'],
    ['192.0.2.1:4000', '198.51.100.7,192.0.2.1 , 10.0.0.1'],
    ['::ffff:192.0.2.1', '192.0.2.1:80'],
    ['2001:DB8:0:0::1', '[2001:db8::1]:443'],
    [undefined, '192.0.2.1'],
    ['unknown', '192.0.2.1']
  ])('is not known to be that of a proxy: %s with X-Forwarded-For: %s', (clientAddress, forwarded) => {
    expect(findProxy(clientAddress, forwarded)).toBeUndefined()
  })
})

describe('the response of an answer', () => {
  it.each([204, 304])(
    'has no length with status %d: that of a 304 would be of the body that the client has',
    (status) => expect(toResponse({ status, headers: {} }, 'GET').headers.has('content-length')).toBe(false)
  )

  it.each([
    ['GET', 'ä', 'ä'],
    ['HEAD', 'ä', ''],
    ['GET', '', '']
  ])('has the length of its body in bytes: to %s with %j', async (method, body, received) => {
    const response = toResponse({ status: 200, headers: {}, body }, method)
    expect(response.headers.get('content-length')).toBe(body === '' ? '0' : '2')
    expect(await response.text()).toBe(received)
  })
})

describe('the body of a Request', () => {
  it('may have as many bytes as allowed', async () => {
    const { request } = createStreamed(3)
    expect(await request.receiveBody(3000)).toHaveLength(3000)
  })

  // Cause: a cancelled body of Node 20 ended the process with the next chunk of the client.
  it('is refused beyond that without a Content-Length, and its rest is dropped, not cancelled', async () => {
    const { request, seen } = createStreamed(100)
    await expect(request.receiveBody(2999)).rejects.toEqual(refusal('ERR_TOO_LARGE'))
    await until(() => seen.pulled > 100)
    expect(seen.isCancelled).toBe(false)
  })

  it('is refused by its Content-Length, and dropped', async () => {
    const { request, seen } = createStreamed(3, { 'Content-Length': '3000' })
    await expect(request.receiveBody(2999)).rejects.toEqual(refusal('ERR_TOO_LARGE'))
    await until(() => seen.pulled > 3)
    expect(seen.isCancelled).toBe(false)
  })

  it('is bounded by what arrives, not by a smaller Content-Length', async () => {
    const { request } = createStreamed(3, { 'Content-Length': '10' })
    await expect(request.receiveBody(2999)).rejects.toEqual(refusal('ERR_TOO_LARGE'))
  })

  it('is malformed if it breaks off', async () => {
    const { request } = createStreamed(2, {}, new Error('connection lost'))
    await expect(request.receiveBody(3000)).rejects.toEqual(refusal('ERR_JSON'))
  })

  it('is empty if there is none, and stays unread without a limit', async () => {
    expect(await create(new Request(url, { method: 'POST' })).receiveBody(10)).toHaveLength(0)
    const { request, seen } = createStreamed(1)
    expect(await request.receiveBody(undefined)).toBeUndefined()
    expect(seen.pulled).toBe(0)
  })

  it.each<[string, (request: Request) => unknown]>([
    ['was read', (request) => request.text()],
    ['is being read', (request) => request.body?.getReader()],
    ['was cancelled', (request) => request.body?.cancel()]
  ])('is a mistake of the application if it %s', async (_name, use) => {
    const request = new Request(url, { method: 'POST', body: '{}' })
    await use(request)
    await expect(create(request).receiveBody(10)).rejects.toEqual(refusal('ERR_CONFIG'))
  })
})

describe('a Request', () => {
  it('is gone once its signal is aborted', () => {
    const controller = new AbortController()
    const request = create(new Request(url, { signal: controller.signal }))
    expect(request.isGone()).toBe(false)
    controller.abort()
    expect(request.isGone()).toBe(true)
  })

  it.each([
    ['192.0.2.1', '192.0.2.1'],
    ['192.0.2.1:4000', '192.0.2.1:4000'],
    ['[2001:db8::1]:443', '[2001:db8::1]:443'],
    ['fe80::1%eth0', 'fe80::1%eth0'],
    ['', undefined],
    ['unknown', undefined],
    ['192.0.2.1, 192.0.2.2', undefined],
    ['192.0.2.999', undefined],
    ['x'.repeat(10_000), undefined],
    [undefined, undefined],
    [null, undefined],
    [{ address: '192.0.2.1' }, undefined]
  ])('has only an IP address as the address of its client: %p', (given, expected) =>
    expect(create(new Request(url), given).clientAddress).toBe(expected)
  )
})

describe('parseTarget', () => {
  it.each([
    ['https://a.example/auth?x=1#y', '', { originalUrl: '/auth?x=1', mountPath: '', path: '/auth' }],
    ['https://a.example', '/', { originalUrl: '/', mountPath: '', path: '/' }],
    ['https://a.example/api/auth', '/api', { originalUrl: '/api/auth', mountPath: '/api', path: '/auth' }],
    ['https://a.example/API/auth', '/api/', { originalUrl: '/API/auth', mountPath: '/API', path: '/auth' }],
    ['https://a.example/api?a=/api/b', '/api', { originalUrl: '/api?a=/api/b', mountPath: '/api', path: '/' }],
    ['https://a.example/apix/auth', '/api', { originalUrl: '/apix/auth', mountPath: '', path: undefined }],
    ['https://a.example/auth', '/api', { originalUrl: '/auth', mountPath: '', path: undefined }]
  ])('divides %s below %p as Express does', (address, mountPath, target) =>
    expect(parseTarget(address, mountPath)).toEqual(target)
  )

  it('refuses a mount path without its first slash', () =>
    expect(() => parseTarget(url, 'api')).toThrow(new TypeError('mountPath starts with a slash, such as /api')))
})

describe('toResponse', () => {
  it('sends each cookie in its own header, and no Content-Type without a body', () => {
    const response = toResponse({ status: 200, headers: { 'X-A': 'b' }, cookies: ['a=1', 'b=2'] }, 'POST')
    expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
    expect([...response.headers.keys()].sort()).toEqual(['content-length', 'set-cookie', 'set-cookie', 'x-a'])
  })

  it('has the length of its body in bytes, which HEAD gets without the body', async () => {
    const [get, head] = ['GET', 'HEAD'].map((method) => toResponse({ status: 200, headers: {}, body: 'é' }, method))
    expect([get?.headers.get('content-length'), await get?.text()]).toEqual(['2', 'é'])
    expect([head?.headers.get('content-length'), await head?.text()]).toEqual(['2', ''])
  })
})
