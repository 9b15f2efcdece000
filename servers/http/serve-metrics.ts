import type { RequestListener } from 'node:http'
import type { Metrics } from '../observability/metrics.js'
import { serve, type ListenAddress, type Running } from './listen.js'

/**
 * Serves `GET /metrics` on a port of its own, which no proxy has to hide.
 *
 * @throws StartError when it cannot listen
 */
export function serveMetrics(metrics: Metrics, where: ListenAddress): Promise<Running> {
  const listener: RequestListener = (req, res) => {
    if (req.method !== 'GET' || req.url !== '/metrics') {
      res.writeHead(404, { 'Content-Type': 'text/plain; charset=utf-8' }).end('Not found')
      return
    }
    void metrics.read().then(({ contentType, text }) => {
      res.writeHead(200, { 'Content-Type': contentType, 'Cache-Control': 'no-store' }).end(text)
    })
  }
  return serve(where, () => ({ listener, release: () => Promise.resolve() }))
}
