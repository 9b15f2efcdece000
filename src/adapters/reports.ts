import type { Clock, Logger, OnSecurityEvent, SecurityEvent, Store } from '../ports.js'

/** Default logger: writes warnings and errors to the console, and nothing about normal operation. */
export const consoleLogger: Logger = {
  info: () => undefined,
  warn: (fields, message) => console.warn('express-did-auth:', message, fields),
  error: (fields, message) => console.error('express-did-auth:', message, fields)
}

/** Creates a function that passes events to the application. If the listener throws or rejects, that is only logged. */
export function createSecurityReporter(
  clock: Clock,
  logger: Logger,
  onSecurityEvent: OnSecurityEvent | undefined
): (event: Omit<SecurityEvent, 'atSeconds'>) => void {
  const failed = (): void => {
    // The cause is not logged, because it may quote the event.
    try {
      logger.error({ event: 'security-listener-failed' }, 'onSecurityEvent threw')
    } catch {
      // If the logger throws as well, the process must not end by an unhandled rejection.
    }
  }
  return (event) => {
    if (onSecurityEvent === undefined) return
    try {
      Promise.resolve(onSecurityEvent({ ...event, atSeconds: clock.nowSeconds() })).catch(failed)
    } catch {
      failed()
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
