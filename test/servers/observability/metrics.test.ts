import { afterAll, describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { serveMetrics } from '../../../servers/http/listen.js'
import { Metrics } from '../../../servers/observability/metrics.js'
import { ask } from '../../support/servers/server-client.js'
import { testAuthServer } from '../../support/servers/test-app.js'
import { until } from '../../support/fixtures/until.js'
import { testVault } from '../../support/servers/vault-app.js'
import { createNumberedWallet } from '../../support/fixtures/fixtures.js'

describe('Metrics', () => {
  const readLines = async (metrics: Metrics): Promise<string[]> =>
    (await metrics.read()).text.split('\n').filter((line) => /^did_auth_(?!build_info)/.test(line))

  it('reads a gauge of several servers on each request', async () => {
    const metrics = new Metrics()
    let open = 3
    metrics.watch('did_auth_pins_open', () => [{ labels: { server: 'relay' }, value: open }])
    metrics.watch('did_auth_pins_open', () => Promise.resolve([{ labels: { server: 'vault' }, value: 1 }]))
    expect(await readLines(metrics)).toEqual([
      'did_auth_pins_open{server="relay"} 3',
      'did_auth_pins_open{server="vault"} 1'
    ])
    open = 0
    expect(await readLines(metrics)).toContain('did_auth_pins_open{server="relay"} 0')
  })

  it('omits a gauge that cannot be read', async () => {
    const metrics = new Metrics()
    metrics.watch('did_auth_pins_open', () => Promise.reject(new Error('away')))
    expect(await readLines(metrics)).toEqual([])
  })

  it('reports when a task last succeeded', async () => {
    const metrics = new Metrics()
    const vault = await testVault({}, { metrics })
    const isShown = (line: string) => /^did_auth_task_success\w+\{server="vault",task="collector"\} \d{10}$/.test(line)
    await until(async () => (await readLines(metrics)).some(isShown))
    await vault.close()
  })
})

describe('GET /metrics', () => {
  const metrics = new Metrics()
  const served = serveMetrics(metrics, { port: 0, host: '127.0.0.1', variable: 'METRICS_PORT' })
  afterAll(async () => (await served).stop())

  it('counts requests by route, method and status, and never by their path', async () => {
    const { listener } = await testAuthServer({}, { metrics })
    await request(listener)
      .get(`/request-auth/${createNumberedWallet(1).did}`)
      .expect(200)
    await request(listener)
      .get(`/REQUEST-AUTH/${createNumberedWallet(2).did}`)
      .expect(200)
    await request(listener).get('/never-heard-of').expect(404)
    await request(listener).get('/me').expect(401)
    const { url } = await served
    const { status, text, headers } = await ask(`${url}/metrics`)
    expect(status).toBe(200)
    expect(headers.get('content-type')).toMatch(/^text\/plain/)
    const counted = text.split('\n').filter((line) => line.startsWith('did_auth_http_requests_total{'))
    expect(counted).toEqual([
      'did_auth_http_requests_total{server="auth",route="/request-auth",method="GET",status="200"} 2',
      'did_auth_http_requests_total{server="auth",route="other",method="GET",status="404"} 1',
      'did_auth_http_requests_total{server="auth",route="/me",method="GET",status="401"} 1'
    ])
    expect(text).toContain('did_auth_http_request_duration_seconds_bucket{le="0.05",server="auth",route="/me"')
    expect(text).toContain('process_resident_memory_bytes')
    expect(text).not.toContain('did:ethr')
  })

  it('counts attempts to log in by each spelling of their path that Express accepts, and no other path', async () => {
    const ownMetrics = new Metrics()
    const { listener } = await testAuthServer({}, { metrics: ownMetrics })
    for (const path of ['/auth', '/auth/', '/AUTH/?a=b']) await request(listener).post(path).expect(401)
    for (const path of ['/auth//', '/auth/a']) await request(listener).post(path).expect(404)
    const { text } = await ownMetrics.read()
    expect(text.split('\n').filter((line) => line.startsWith('did_auth_logins_total{'))).toEqual([
      'did_auth_logins_total{server="auth",method="challenge",outcome="refused"} 3'
    ])
  })

  it('is the only route of its port', async () => {
    const { url } = await served
    const { status, text } = await ask(`${url}/`)
    expect([status, text]).toEqual([404, 'Not found'])
    expect((await ask(`${url}/metrics`, { method: 'POST' })).status).toBe(404)
  })
})
