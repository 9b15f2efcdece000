import type { Store } from '../ports.js'

interface Service {
  serviceUrl: string
  challengeSecret: string
}

const servicesOf = new WeakMap<Store, Service[]>()
const pathsOf = new WeakMap<object, ReadonlySet<unknown>>()

/** Remembers the paths of an application or router, and warns of one that a service there has already: it alone answers. */
export function sharedPathWarnings(app: object, paths: Readonly<Record<string, string | undefined>>): string[] {
  const known = pathsOf.get(app) ?? new Set()
  const given = Object.values(paths).filter((path) => path !== undefined)
  pathsOf.set(app, new Set([...known, ...given]))
  const shared = given.filter((path) => known.has(path))
  return shared.length === 0 ? [] : [`setupDidAuth was called twice on one app: the first answers ${shared.join(', ')}`]
}

/**
 * Remembers which services of this process use a store, and warns of two with one secret: what a user signs for one
 * domain that both accept would be good at both.
 *
 * @returns one warning or none
 */
export function sharedStoreWarnings(store: Store | undefined, { serviceUrl, challengeSecret }: Service): string[] {
  if (store === undefined) return []
  const services = servicesOf.get(store) ?? []
  const twin = services.find((one) => one.serviceUrl !== serviceUrl && one.challengeSecret === challengeSecret)
  servicesOf.set(store, [...services, { serviceUrl, challengeSecret }])
  return twin === undefined
    ? []
    : [`${serviceUrl} and ${twin.serviceUrl} share a store and a challengeSecret: give each service its own secret`]
}
