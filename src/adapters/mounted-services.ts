/** Paths below the application or router of a service, and its URL. */
export interface MountedService {
  serviceUrl: string
  requestAuthPath: string
  authPath: string
}

const services = new WeakMap<object, MountedService>()

/** Remembers which service an application or router has, for the test kit; of several, the first, which answers. */
export function rememberService(app: object, service: MountedService): void {
  if (!services.has(app)) services.set(app, service)
}

/** Finds the service of an application or router of this process. */
export function findService(app: object): MountedService | undefined {
  return services.get(app)
}
