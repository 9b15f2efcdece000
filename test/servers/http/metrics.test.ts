import { afterAll, describe, expect, it } from '@jest/globals'
import request from 'supertest'
import { serveMetrics } from '../../../servers/http/listen.js'
import { prometheusMetrics } from '../../../servers/observability/metrics.js'
import { ask } from '../../support/server-client.js'
import { testAuthServer } from '../../support/test-app.js'
import { walletOf } from '../../support/wallet.js'

describe('GET /metrics', () => {
  const metrics = prometheusMetrics()
  const served = serveMetrics(metrics, { port: 0, host: '127.0.0.1', variable: 'METRICS_PORT' })
  afterAll(async () => (await served).stop())

  it('counts requests by route, method and status, whatever their path says', async () => {
    const { listener } = await testAuthServer({}, { metrics })
    await request(listener)
      .get(`/request-auth/${walletOf(1).did}`)
      .expect(200)
    await request(listener)
      .get(`/REQUEST-AUTH/${walletOf(2).did}`)
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

  it('is all that its port answers', async () => {
    const { url } = await served
    const { status, text } = await ask(`${url}/`)
    expect([status, text]).toEqual([404, 'Not found'])
    expect((await ask(`${url}/metrics`, { method: 'POST' })).status).toBe(404)
  })
})
