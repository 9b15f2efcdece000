import { isObject } from 'express-did-auth/server-kit'
import { type DestinationStream, type LogFn, type Logger, pino } from 'pino'
import type { ServerEnv } from '../config/read-env.js'
import { nameVariables, variableFor } from '../config/variable-names.js'

/**
 * Creates the log of a server on standard output. The default format is readable lines on a terminal, JSON otherwise.
 *
 * Lines are written synchronously, because asynchronous writing by pino can reorder or repeat the last lines when the
 * process ends.
 */
export function createServerLog(
  env: Pick<ServerEnv, 'LOG_LEVEL' | 'LOG_FORMAT' | 'name'>,
  isTerminal = process.stdout.isTTY,
  destination: DestinationStream = pino.destination({ dest: 1, sync: true })
): Logger {
  const pretty: DestinationStream = { write: (line) => destination.write(`${formatLine(line)}\n`) }
  const format = env.LOG_FORMAT ?? (isTerminal ? 'pretty' : 'json')
  const options = {
    level: env.LOG_LEVEL,
    base: { server: env.name },
    timestamp: pino.stdTimeFunctions.isoTime,
    formatters: { level: (label: string) => ({ level: label }) },
    hooks: { logMethod: writeWithVariables },
    // No log line of the servers has these fields. Redacting them is a second line of defence.
    redact: ['authorization', 'cookie', 'sig', 'accessToken', 'refreshToken', 'challenge', 'privateKey']
  }
  return pino(options, format === 'pretty' ? pretty : destination)
}

/**
 * Writes a line in which variables of the servers replace the options that texts of the library name. Lines of requests
 * contain no such text.
 */
function writeWithVariables(this: Logger, line: Parameters<LogFn>, write: LogFn): void {
  const [fields, message]: readonly unknown[] = line
  if (isObject(fields) && fields.event === 'request') {
    write.apply(this, line)
    return
  }
  const text = typeof message === 'string' ? nameVariables(message) : undefined
  if (!isObject(fields) || !isObject(fields.reason)) {
    write.call(this, fields, text)
    return
  }
  const reason = Object.entries(fields.reason).map(([field, value]) => [field, nameInReason(field, value)])
  write.call(this, { ...fields, reason: Object.fromEntries(reason) as unknown }, text)
}

function nameInReason(field: string, value: unknown): unknown {
  if (typeof value !== 'string') return value
  return field === 'option' ? variableFor(value) : nameVariables(value)
}

/** Writes a line at every log level, such as the ready line. */
export function writeLine(log: Logger, fields: Readonly<Record<string, unknown>>, line: string): void {
  log.child({}, { level: 'info' }).info(fields, line)
}

/** A request that has ended, without path, headers, body and address. */
export interface EndedRequest {
  method: string
  /** Name from a fixed list. Paths are not logged, because they may contain a DID or other text of a client. */
  route: string
  /** Status code; 0 if the client disconnected before the response. */
  status: number
  /** Error code of the response. */
  code?: string | undefined
  /** Attempt of a user to log in, by its method, or to refresh tokens. Only metrics contain it. */
  attempt?: 'challenge' | 'signup' | 'siwe' | 'machine' | 'refresh' | undefined
  /** Id of the request, which its other log lines contain as well. */
  requestId?: string | undefined
  seconds: number
}

/** Routes that supervisors and load balancers request every few seconds. */
const PROBES: ReadonlySet<string> = new Set(['/health', '/ready'])

/** Logs one line for a request. Successful probes are logged at level debug. */
export function logRequest(log: Logger, { seconds, attempt: _attempt, ...fields }: EndedRequest): void {
  const level = PROBES.has(fields.route) && fields.status === 200 ? 'debug' : 'info'
  log[level]({ event: 'request', ...fields, milliseconds: Math.round(seconds * 1e6) / 1e3 }, 'request')
}

/** Fields that a readable line shows at a fixed place, or omits. */
const FIXED_FIELDS = new Set(['time', 'level', 'server', 'msg', 'event'])

/** Formats a JSON line of pino for people: time, level, server, message, and the other fields as `name=value`. */
function formatLine(line: string): string {
  const fields = JSON.parse(line) as Record<string, unknown>
  const { time, level, server, msg, event, method, route, status, code, milliseconds, requestId } = fields
  const [clock] = String(time).slice(11).split('Z')
  const head = [clock, String(level).toUpperCase().padEnd(5), String(server).padEnd(5)].join('  ')
  if (event === 'request') {
    const words = [
      method,
      route,
      status,
      milliseconds,
      'ms',
      code,
      typeof requestId === 'string' ? `requestId=${requestId}` : undefined
    ]
    return [`${head} `, ...words.filter((word) => word !== undefined)].map(String).join(' ')
  }
  if (event === 'ready' || event === 'page' || event === 'waiting') return `${head}  ${String(msg)}`
  const otherFields = Object.entries(fields).filter(([name]) => !FIXED_FIELDS.has(name))
  return [head, String(msg), ...otherFields.map(([name, value]) => `${name}=${toText(value)}`)].join('  ')
}

function toText(value: unknown): string {
  return typeof value === 'string' && !/\s/.test(value) ? value : JSON.stringify(value)
}
