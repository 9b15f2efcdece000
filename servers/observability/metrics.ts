import { collectDefaultMetrics, Counter, Histogram, Registry } from 'prom-client'
import type { EndedRequest } from './logger.js'

/** Prometheus metrics of one process. */
export interface Metrics {
  /** Counts a request of one server, by route, method and status. */
  count(server: string, ended: EndedRequest): void
  /** All metrics as Prometheus reads them. */
  read(): Promise<{ contentType: string; text: string }>
}

/** Counters of requests beside those that every Node process has. */
export function prometheusMetrics(): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry })
  const labelNames = ['server', 'route', 'method', 'status'] as const
  const requests = new Counter({
    name: 'did_auth_http_requests_total',
    help: 'Requests that have ended; status 0: the client disconnected before the response',
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
    count(server, { route, method, status, seconds }) {
      const labels = { server, route, method, status: String(status) }
      requests.inc(labels)
      durations.observe(labels, seconds)
    },
    read: async () => ({ contentType: registry.contentType, text: await registry.metrics() })
  }
}
