import type { Clock, Logger, OnSecurityEvent, SecurityEvent, Store } from '../ports.js'

/** Warnings and errors on the console: by default a library writes no line about normal operation. */
export const consoleLogger: Logger = {
  info: () => undefined,
  warn: (fields, message) => console.warn('express-did-auth:', message, fields),
  error: (fields, message) => console.error('express-did-auth:', message, fields)
}

/** Hands security events to the application. A listener that throws or rejects is logged, and fails no request. */
export function createSecurityReporter(
  clock: Clock,
  logger: Logger,
  onSecurityEvent: OnSecurityEvent | undefined
): (event: Omit<SecurityEvent, 'atSeconds'>) => void {
  const failed = (): void => {
    // The cause is not logged: it may quote the event.
    try {
      logger.error({ event: 'security-listener-failed' }, 'onSecurityEvent threw')
    } catch {
      // A logger that throws as well must not end the process by an unhandled rejection.
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

/** Remembers the paths of an application or router. Warns if another service has one of them: only that one answers. */
export function warnOfSharedPaths(app: object, paths: Readonly<Record<string, string | undefined>>): string[] {
  const known = pathsByApp.get(app) ?? new Set()
  const given = Object.values(paths).filter((path) => path !== undefined)
  pathsByApp.set(app, new Set([...known, ...given]))
  const shared = given.filter((path) => known.has(path))
  return shared.length === 0 ? [] : [`setupDidAuth was called twice on one app: the first answers ${shared.join(', ')}`]
}

/** Warns of two services of this process with one store and secret: both accept a signature for either. */
export function warnOfSharedStores(store: Store | undefined, { serviceUrl, challengeSecret }: Service): string[] {
  if (store === undefined) return []
  const services = servicesByStore.get(store) ?? []
  const twin = services.find((one) => one.serviceUrl !== serviceUrl && one.challengeSecret === challengeSecret)
  servicesByStore.set(store, [...services, { serviceUrl, challengeSecret }])
  return twin === undefined
    ? []
    : [`${serviceUrl} and ${twin.serviceUrl} share a store and a challengeSecret: give each service its own secret`]
}
