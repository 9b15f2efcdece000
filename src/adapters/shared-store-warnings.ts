import type { Store } from '../ports.js'

interface Service {
  serviceUrl: string
  challengeSecret: string
}

const servicesOf = new WeakMap<Store, Service[]>()

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
