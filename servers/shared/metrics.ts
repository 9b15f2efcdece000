import { createServer, type Server } from 'node:http'
import type { RequestHandler } from 'express'
import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client'
import type { RouteName } from './json-log.js'

/** Prometheus metrics of one process. */
export interface Metrics {
  /** Counts requests of one server by route, method and status, and their duration in seconds. */
  measure(server: string, routeName: RouteName): RequestHandler
  /** Serves `GET /metrics` on a port of its own, which no proxy has to hide. */
  listen(port: number, host: string): Promise<Server>
}

export function prometheusMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const labelNames = ['server', 'route', 'method', 'status'] as const
  const requests = new Counter({
    name: 'did_auth_http_requests_total',
    help: 'Requests answered',
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

  return {
    measure: (server, routeName) => (req, res, next) => {
      const startedAt = performance.now()
      res.once('close', () => {
        const labels = { server, route: routeName(req.path), method: req.method, status: String(res.statusCode) }
        requests.inc(labels)
        durations.observe(labels, (performance.now() - startedAt) / 1000)
      })
      next()
    },
    listen: (port, host) =>
      new Promise((resolve, reject) => {
        const server = createServer((req, res) => {
          if (req.url !== '/metrics') {
            res.writeHead(404, { 'Content-Type': 'text/plain; charset=utf-8' }).end('Not found')
            return
          }
          void registry.metrics().then((text) => {
            res.writeHead(200, { 'Content-Type': registry.contentType }).end(text)
          })
        })
        server.once('error', reject)
        server.listen(port, host, () => {
          resolve(server)
        })
      })
  }
}
