import type { SecurityEvent } from 'express-did-auth'
import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import { readVersion } from '../config/package-version.js'
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
  did_auth_dependency_up: {
    help: 'Whether a dependency of /ready is available: 1 or 0',
    labelNames: ['server', 'dependency']
  },
  did_auth_disk_used_ratio: { help: 'Used part of the disk that contains the content, 0 to 1', labelNames: ['server'] },
  did_auth_pins_open: { help: 'Pin changes that the IPFS node has not carried out yet', labelNames: ['server'] },
  did_auth_ready: { help: 'Whether /ready answers 200: 1 or 0', labelNames: ['server'] },
  did_auth_stored_bytes: { help: 'Size of all stored content in bytes', labelNames: ['server'] },
  did_auth_stored_bytes_limit: { help: 'Configured bound of did_auth_stored_bytes', labelNames: ['server'] },
  did_auth_task_success_timestamp_seconds: {
    help: 'Unix time in seconds at which a task last succeeded',
    labelNames: ['server', 'task']
  }
} as const
type GaugeName = keyof typeof GAUGES

/** All types of security events. Each counter starts at 0, so that an alert sees the first event. */
const EVENT_TYPES: Readonly<Record<SecurityEvent['type'], 0>> = {
  login: 0,
  signup: 0,
  logout: 0,
  refresh: 0,
  'proof-refused': 0,
  'refresh-token-reused': 0,
  'device-mismatch': 0,
  'session-revoked': 0,
  'cross-origin-refused': 0,
  'too-many-requests': 0,
  'sessions-evicted': 0,
  'signer-address-changed': 0,
  'control-lost': 0
}

/** Prometheus metrics of one process: requests, logins, gauges of stores, and the default metrics of Node. */
export class Metrics {
  readonly #registry = new Registry()
  readonly #readers: { name: GaugeName; read: () => Samples | Promise<Samples> }[] = []
  readonly #requests: Counter
  readonly #durations: Histogram
  readonly #errors: Counter
  readonly #logins: Counter
  readonly #refreshes: Counter
  readonly #events: Counter

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
    const createCounter = (name: string, help: string, ...labelNames: string[]): Counter =>
      new Counter({ name, help, labelNames: ['server', ...labelNames], registers })
    this.#errors = createCounter('did_auth_errors_total', 'Responses with an error code', 'route', 'code')
    this.#logins = createCounter('did_auth_logins_total', 'Attempts to log in or sign up', 'method', 'outcome')
    this.#refreshes = createCounter('did_auth_refreshes_total', 'Attempts to refresh tokens', 'outcome')
    this.#events = createCounter('did_auth_security_events_total', 'Security events of the library', 'type')
    const build = { version: readVersion(), node: process.versions.node }
    new Gauge({ name: 'did_auth_build_info', help: 'Always 1', labelNames: Object.keys(build), registers }).set(
      build,
      1
    )
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

  /** Counts a request. Its route, code and `attempt` are from fixed lists, so that clients cannot add series. */
  count(server: string, { route, method, status, code, attempt, seconds }: EndedRequest): void {
    const labels = { server, route, method, status: String(status) }
    this.#requests.inc(labels)
    this.#durations.observe(labels, seconds)
    if (code !== undefined) this.#errors.inc({ server, route, code })
    if (attempt === 'refresh') this.#refreshes.inc({ server, outcome: toOutcome(status) })
    else if (attempt !== undefined) this.#logins.inc({ server, method: attempt, outcome: toOutcome(status) })
  }

  /** Returns the function that counts the security events of a server. */
  createEventCounter(server: string): (event: Pick<SecurityEvent, 'type'>) => void {
    for (const type of Object.keys(EVENT_TYPES)) this.#events.inc({ server, type }, 0)
    return ({ type }) => this.#events.inc({ server, type })
  }

  /** Adds a function that reads values of a gauge. It is called at each read of metrics, and skipped if it fails. */
  watch(name: GaugeName, read: () => Samples | Promise<Samples>): void {
    this.#readers.push({ name, read })
  }

  async read(): Promise<{ contentType: string; text: string }> {
    return { contentType: this.#registry.contentType, text: await this.#registry.metrics() }
  }
}

/** Returns the outcome of an attempt by the status of its response. */
function toOutcome(status: number): 'accepted' | 'refused' | 'failed' | 'aborted' {
  if (status === 0) return 'aborted'
  return status < 400 ? 'accepted' : status < 500 ? 'refused' : 'failed'
}
