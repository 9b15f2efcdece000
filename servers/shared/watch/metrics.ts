import type { RequestListener } from 'node:http'
import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client'
import type { EndedRequest } from './json-log.js'
import { serve, type ListenAddress, type Running } from '../listen/serve.js'

/** Prometheus metrics of one process. */
export interface Metrics {
  /** Counts a request of one server, by route, method and status. */
  count(server: string, ended: EndedRequest): void
  /** Serves `GET /metrics` on a port of its own, which no proxy has to hide. */
  serve(where: ListenAddress): Promise<Running>
}

/** Counters of requests beside those that every Node process has. */
export function prometheusMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const labelNames = ['server', 'route', 'method', 'status'] as const
  const requests = new Counter({
    name: 'did_auth_http_requests_total',
    help: 'Requests that are over; status 0: the client was gone before there was an answer',
    labelNames,
    registers: [registry]
  })
  const durations = new Histogram({
    name: 'did_auth_http_request_duration_seconds',
    help: 'Duration of requests in seconds',
    labelNames,
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5],
    registers: [registry]
  })

  const listener: RequestListener = (req, res) => {
    if (req.method !== 'GET' || req.url !== '/metrics') {
      res.writeHead(404, { 'Content-Type': 'text/plain; charset=utf-8' }).end('Not found')
      return
    }
    void registry.metrics().then((text) => {
      res.writeHead(200, { 'Content-Type': registry.contentType, 'Cache-Control': 'no-store' }).end(text)
    })
  }

  return {
    count(server, { route, method, status, seconds }) {
      const labels = { server, route, method, status: String(status) }
      requests.inc(labels)
      durations.observe(labels, seconds)
    },
    serve: (where) => serve(where, () => ({ listener, release: () => Promise.resolve() }))
  }
}
