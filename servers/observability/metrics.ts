import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { EndedRequest } from './logger.js'

/** Values of a gauge, one for each combination of labels. */
export type Samples = readonly { readonly labels: Readonly<Record<string, string>>; readonly value: number }[]

/** Gauges of the servers with their help texts and labels. */
const GAUGES = {
  // Each gauge has labels, because a gauge without labels would show 0 if it cannot be read.
  did_auth_database_connections: {
    help: 'Connections to PostgreSQL, and operations that wait for one',
    labelNames: ['state']
  },
  did_auth_database_retries_total: { help: 'SQL statements that were retried, by SQLSTATE', labelNames: ['code'] },
  did_auth_pins_open: { help: 'Pin changes that the IPFS node has not carried out yet', labelNames: ['server'] },
  did_auth_task_success_timestamp_seconds: {
    help: 'Unix time in seconds at which a task last succeeded',
    labelNames: ['server', 'task']
  }
} as const
type GaugeName = keyof typeof GAUGES

/** Prometheus metrics of one process: requests, gauges of stores, and the default metrics of Node. */
export class Metrics {
  readonly #registry = new Registry()
  readonly #readers: { name: GaugeName; read: () => Samples | Promise<Samples> }[] = []
  readonly #requests: Counter
  readonly #durations: Histogram

  constructor() {
    const registers = [this.#registry]
    collectDefaultMetrics({ register: this.#registry })
    const labelNames = ['server', 'route', 'method', 'status']
    this.#requests = new Counter({
      name: 'did_auth_http_requests_total',
      help: 'Requests that have ended; status 0: the client disconnected before the response',
      labelNames,
      registers
    })
    this.#durations = new Histogram({
      name: 'did_auth_http_request_duration_seconds',
      help: 'Duration of requests in seconds',
      labelNames,
      buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5],
      registers
    })
    const readers = this.#readers
    for (const [name, settings] of Object.entries(GAUGES)) {
      new Gauge<string>({
        name,
        ...settings,
        registers,
        async collect() {
          const ownReaders = readers.filter((reader) => reader.name === name)
          const results = await Promise.allSettled(ownReaders.map(async ({ read }) => read()))
          this.reset()
          for (const result of results) {
            if (result.status === 'rejected') continue
            for (const { labels, value } of result.value) this.set(labels, value)
          }
        }
      })
    }
  }

  count(server: string, { route, method, status, seconds }: EndedRequest): void {
    const labels = { server, route, method, status: String(status) }
    this.#requests.inc(labels)
    this.#durations.observe(labels, seconds)
  }

  /** Adds a function that reads values of a gauge. It is called at each read of metrics, and skipped if it fails. */
  watch(name: GaugeName, read: () => Samples | Promise<Samples>): void {
    this.#readers.push({ name, read })
  }

  async read(): Promise<{ contentType: string; text: string }> {
    return { contentType: this.#registry.contentType, text: await this.#registry.metrics() }
  }
}
