import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { EndedRequest } from './logger.js'

/** What a gauge shows: a value for each combination of labels. */
export type Samples = readonly { readonly labels: Readonly<Record<string, string>>; readonly value: number }[]

/** Gauges of the servers beside those of requests, each with its help and its labels. */
const GAUGES = {
  // Each has labels: without, a gauge that cannot be read would show 0.
  did_auth_database_connections: {
    help: 'Connections to PostgreSQL, and verbs that wait for one',
    labelNames: ['state']
  },
  did_auth_database_retries_total: { help: 'Statements that were repeated, by SQLSTATE', labelNames: ['code'] },
  did_auth_pins_open: { help: 'Changes of pins that the IPFS node has not carried out', labelNames: ['server'] },
  did_auth_task_success_timestamp_seconds: { help: 'When a task last succeeded', labelNames: ['server', 'task'] }
} as const
export type GaugeName = keyof typeof GAUGES

/** Prometheus metrics of one process. */
export interface Metrics {
  /** Counts a request of one server, by route, method and status. */
  count(server: string, ended: EndedRequest): void
  /** Reads a gauge from now on, whenever metrics are read. One that fails is left out. */
  watch(name: GaugeName, read: () => Samples | Promise<Samples>): void
  /** Notes that a task of a server has succeeded now. */
  succeeded(server: string, task: 'collector' | 'sweep'): void
  /** All metrics as Prometheus reads them. */
  read(): Promise<{ contentType: string; text: string }>
}

/** Counters of requests and gauges of stores, beside what every Node process has. */
export function prometheusMetrics(): Metrics {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  const labelNames = ['server', 'route', 'method', 'status'] as const
  const requests = new Counter({
    name: 'did_auth_http_requests_total',
    help: 'Requests that have ended; status 0: the client disconnected before the response',
    labelNames,
    registers
  })
  const durations = new Histogram({
    name: 'did_auth_http_request_duration_seconds',
    help: 'Duration of requests in seconds',
    labelNames,
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5],
    registers
  })
  const readers: { name: GaugeName; read: () => Samples | Promise<Samples> }[] = []
  for (const [name, { help, labelNames }] of Object.entries(GAUGES)) {
    new Gauge({
      name,
      help,
      labelNames,
      registers,
      async collect() {
        const own = readers.filter((reader) => reader.name === name)
        const results = await Promise.allSettled(own.map(async ({ read }) => read()))
        this.reset()
        for (const result of results) {
          if (result.status === 'rejected') continue
          for (const { labels, value } of result.value) this.set(labels, value)
        }
      }
    })
  }
  const successes = new Map<string, Samples[number]>()
  const metrics: Metrics = {
    count(server, { route, method, status, seconds }) {
      const labels = { server, route, method, status: String(status) }
      requests.inc(labels)
      durations.observe(labels, seconds)
    },
    watch(name, read) {
      readers.push({ name, read })
    },
    succeeded(server, task) {
      successes.set(`${server} ${task}`, { labels: { server, task }, value: Math.floor(Date.now() / 1_000) })
    },
    read: async () => ({ contentType: registry.contentType, text: await registry.metrics() })
  }
  metrics.watch('did_auth_task_success_timestamp_seconds', () => [...successes.values()])
  return metrics
}
