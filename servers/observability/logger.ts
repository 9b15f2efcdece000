import type { Request, RequestHandler } from 'express'
import { findErrorCode, isObject } from 'express-did-auth/server-kit'
import { type DestinationStream, type LogFn, type Logger, pino } from 'pino'
import type { ServerEnv } from '../config/read-env.js'
import { nameVariables, variableFor } from '../config/variable-names.js'

/**
 * The log of a server on standard output: readable lines on a terminal, JSON otherwise, or as `LOG_FORMAT` says.
 *
 * Lines are written synchronously: asynchronous writing by pino loses the order of the last lines, or repeats one, when
 * the process ends.
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
    // A safety net: no log line of the servers has these fields.
    redact: ['authorization', 'cookie', 'sig', 'accessToken', 'refreshToken', 'challenge', 'privateKey']
  }
  return pino(options, format === 'pretty' ? pretty : destination)
}

/** Writes a line as it is, with variables of servers in place of the options that texts of the library name. */
function writeWithVariables(this: Logger, line: Parameters<LogFn>, write: LogFn): void {
  const [fields, message]: readonly unknown[] = line
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

/** Writes a line that appears at every log level: that a server is ready, or the one address to open. */
export function writeLine(log: Logger, fields: Readonly<Record<string, unknown>>, line: string): void {
  log.child({}, { level: 'info' }).info(fields, line)
}

/** A request that has ended. */
export interface EndedRequest {
  method: string
  /** One of a closed list: a path may hold a DID, or any other text of a client. */
  route: string
  /** 0: the client disconnected before the response. */
  status: number
  /** Code of the error that was answered. */
  code?: string | undefined
  seconds: number
}

/** Reports each request when it ends. Never its path, headers, body or address. */
export function watchRequests(routes: readonly string[], tell: (ended: EndedRequest) => void): RequestHandler {
  const known = new Set(routes)
  return (req, res, next) => {
    const startedAt = performance.now()
    const first = /^\/[^/?]*/.exec(req.url)?.[0].toLowerCase() ?? ''
    res.once('close', () => {
      const route = known.has(first) ? first : findPattern(req)
      const status = res.headersSent ? res.statusCode : 0
      const code = findErrorCode(res)
      tell({ method: req.method, route, status, code, seconds: (performance.now() - startedAt) / 1000 })
    })
    next()
  }
}

/** The pattern of the Express route that handled a request: `/:did/:key`, never the values. */
function findPattern(req: Request): string {
  const { path } = Object(req.route) as { path?: unknown }
  return typeof path === 'string' ? path : 'other'
}

/** Asked every few seconds by supervisors and load balancers. */
const PROBES: ReadonlySet<string> = new Set(['/health', '/ready'])

/** One line a request; that a probe found all well is for debugging. */
export function logRequest(log: Logger, { seconds, ...fields }: EndedRequest): void {
  const level = PROBES.has(fields.route) && fields.status === 200 ? 'debug' : 'info'
  log[level]({ event: 'request', ...fields, milliseconds: Math.round(seconds * 1e6) / 1e3 }, 'request')
}

/** Fields that the line shows in places of their own, or that every line has. */
const SHOWN = new Set(['time', 'level', 'server', 'msg', 'event'])

/** A JSON line of pino for people: time, level, server, message, and the other fields as `name=value`. */
function formatLine(line: string): string {
  const fields = JSON.parse(line) as Record<string, unknown>
  const { time, level, server, msg, event, method, route, status, code = '', milliseconds } = fields
  const [clock] = String(time).slice(11).split('Z')
  const head = [clock, String(level).toUpperCase().padEnd(5), String(server).padEnd(5)].join('  ')
  if (event === 'request') {
    return [`${head} `, method, route, status, milliseconds, 'ms', code].map(String).join(' ').trimEnd()
  }
  if (event === 'ready' || event === 'page' || event === 'waiting') return `${head}  ${String(msg)}`
  const rest = Object.entries(fields).filter(([name]) => !SHOWN.has(name))
  return [head, String(msg), ...rest.map(([name, value]) => `${name}=${toText(value)}`)].join('  ')
}

function toText(value: unknown): string {
  return typeof value === 'string' && !/\s/.test(value) ? value : JSON.stringify(value)
}
