/** URL of a service, and paths of its routes below its application or router. */
export interface MountedService {
  serviceUrl: string
  requestAuthPath: string
  authPath: string
}

const services = new WeakMap<object, MountedService>()

/** Stores the service of an application or router for the test kit. Of several, it is the first, which answers. */
export function rememberService(app: object, service: MountedService): void {
  if (!services.has(app)) services.set(app, service)
}

/** Finds the service of an application or router in this process. */
export function findService(app: object): MountedService | undefined {
  return services.get(app)
}
