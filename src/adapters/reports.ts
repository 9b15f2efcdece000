import { toIdField } from '../error-answer.js'
import type { Clock, Logger, OnSecurityEvent, SecurityEvent, Store } from '../ports.js'

/** Default logger: writes warnings and errors to the console, and nothing about normal operation. */
export const consoleLogger: Logger = {
  info: () => undefined,
  warn: (fields, message) => console.warn('express-did-auth:', message, fields),
  error: ({ cause, ...fields }, message) => {
    const reasons = listReasons(cause)
    if (reasons === undefined) console.error('express-did-auth:', message, { ...fields, cause })
    else console.error('express-did-auth:', [message, ...reasons].join(': '), fields)
  }
}

/** Lists the messages of an error and its causes, for one line. @returns undefined if one of them has a stack */
function listReasons(cause: unknown): string[] | undefined {
  if (typeof cause !== 'object' || cause === null) return undefined
  const { message, stack, cause: deeper } = cause as { message?: unknown; stack?: unknown; cause?: unknown }
  if (stack !== undefined || typeof message !== 'string') return undefined
  if (deeper === undefined) return [message]
  const others = listReasons(deeper)
  return others && [message, ...others]
}

/** Fields of a line of the log. */
type Fields = Parameters<Logger['info']>[0]

/** Logger of a request: each line contains the id of the request. */
export class RequestLogger implements Logger {
  readonly #logger: Logger
  readonly #requestId: string

  constructor(logger: Logger, requestId: string) {
    this.#logger = logger
    this.#requestId = requestId
  }

  debug(fields: Fields, message: string): void {
    this.#write('debug', fields, message)
  }

  info(fields: Fields, message: string): void {
    this.#write('info', fields, message)
  }

  warn(fields: Fields, message: string): void {
    this.#write('warn', fields, message)
  }

  error(fields: Fields, message: string): void {
    this.#write('error', fields, message)
  }

  #write(level: keyof Logger, fields: Fields, message: string): void {
    this.#logger[level]?.({ ...fields, requestId: this.#requestId }, message)
  }
}

/** Passes a security event of a request, or without id one of the service, to the application. */
export type SecurityReporter = (event: Omit<SecurityEvent, 'atSeconds'>, requestId?: string) => void

/**
 * Creates a function that passes events to the application; undefined without a listener. If the listener throws or
 * rejects, that is only logged.
 */
export function createSecurityReporter(
  clock: Clock,
  logger: Logger,
  onSecurityEvent: OnSecurityEvent | undefined
): SecurityReporter | undefined {
  if (onSecurityEvent === undefined) return undefined
  const failed = (requestId: string | undefined): void => {
    // The cause is not logged, because it may quote the event.
    try {
      logger.error({ event: 'security-listener-failed', ...toIdField(requestId) }, 'onSecurityEvent threw')
    } catch {
      // If the logger throws as well, the process must not end by an unhandled rejection.
    }
  }
  return (event, requestId) => {
    try {
      Promise.resolve(onSecurityEvent({ ...event, atSeconds: clock.nowSeconds() })).catch(() => failed(requestId))
    } catch {
      failed(requestId)
    }
  }
}

type Service = { serviceUrl: string; challengeSecret: string }

const servicesByStore = new WeakMap<Store, Service[]>()
const pathsByApp = new WeakMap<object, ReadonlySet<unknown>>()

/** Stores the paths of an application or router. Warns of paths that an earlier service already answers. */
export function warnOfSharedPaths(app: object, paths: Readonly<Record<string, string | undefined>>): string[] {
  const takenPaths = pathsByApp.get(app) ?? new Set()
  const newPaths = Object.values(paths).filter((path) => path !== undefined)
  pathsByApp.set(app, new Set([...takenPaths, ...newPaths]))
  const shared = newPaths.filter((path) => takenPaths.has(path))
  return shared.length === 0 ? [] : [`setupDidAuth was called twice on one app: the first answers ${shared.join(', ')}`]
}

/** Warns of two services in this process that share store and secret: both accept a signature made for either. */
export function warnOfSharedStores(store: Store | undefined, { serviceUrl, challengeSecret }: Service): string[] {
  if (store === undefined) return []
  const services = servicesByStore.get(store) ?? []
  const twin = services.find((other) => other.serviceUrl !== serviceUrl && other.challengeSecret === challengeSecret)
  servicesByStore.set(store, [...services, { serviceUrl, challengeSecret }])
  return twin === undefined
    ? []
    : [`${serviceUrl} and ${twin.serviceUrl} share a store and a challengeSecret: give each service its own secret`]
}
