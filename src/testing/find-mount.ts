import { findService, type MountedService } from '../adapters/mounted-services.js'
import { isObject, readField } from '../protocol/json.js'

/** Paths that APIs are often under, for what cannot be inspected: a URL, or an Express that stores no paths. */
const USUAL_PATHS = ['/api', '/auth', '/api/auth', '/v1', '/api/v1']

const MAX_DEPTH = 8
const LITERAL_PATH = /^(?:\/[\w.~-]+)*\/?$/
/** Matches the expression that Express 4 creates for a literal path, not the one for a pattern. */
const LITERAL_REGEXP = /^\^((?:\\\/[\w~-]+(?:\\\.[\w~-]+)*)+)\\\/\?\(\?=\\\/\|\$\)$/

/** A path at which the routes of a login may be, and the service there, if it was found. */
export interface Mount {
  path: string
  service?: MountedService | undefined
}

/** Finds where the routes of a login may be: the place of a service of this process is certain, others are guesses. */
export function findMounts(app: unknown): Mount[] {
  const mounts = inspectApp(app, '', 0)
  const found = mounts.filter(({ service }) => service !== undefined)
  if (found.length > 0) return found
  return ['', ...mounts.map(({ path }) => path), ...USUAL_PATHS].map((path) => ({ path }))
}

function inspectApp(app: unknown, path: string, depth: number): Mount[] {
  if (typeof app !== 'function' || depth > MAX_DEPTH) return []
  const layers = stackIn(app).flatMap((layer) => {
    const own = pathIn(layer)
    return own === undefined ? [] : inspectApp(readField(layer, 'handle'), path + own, depth + 1)
  })
  const service = findService(app)
  // An application that is mounted on another one is hidden in a function of this name.
  const isHidden = app.name === 'mounted_app'
  return service === undefined && !isHidden ? layers : [{ path, service }, ...layers]
}

/** Returns the layers of an application or router of Express 4 or 5. */
function stackIn(app: object): readonly unknown[] {
  // The `router` of an application of Express 4 throws.
  const router = readSafely(app, '_router') ?? readSafely(app, 'router')
  const stack = readSafely(app, 'stack') ?? (typeof router === 'function' ? readSafely(router, 'stack') : undefined)
  return Array.isArray(stack) ? stack : []
}

function readSafely(value: object, name: string): unknown {
  try {
    return Reflect.get(value, name) as unknown
  } catch {
    return undefined
  }
}

/** Returns the path of a layer; undefined for a pattern. */
function pathIn(layer: unknown): string | undefined {
  if (!isObject(layer)) return undefined
  const { rawPath, regexp, slash, match } = layer
  if (slash === true || readField(regexp, 'fast_slash') === true) return ''
  if (typeof rawPath === 'string') return LITERAL_PATH.test(rawPath) ? rawPath.replace(/\/$/, '') : undefined
  if (regexp instanceof RegExp) return LITERAL_REGEXP.exec(regexp.source)?.[1]?.replaceAll('\\', '')
  // An Express 5 that stores no paths.
  if (typeof match !== 'function') return undefined
  return USUAL_PATHS.find((path) => (match as (path: string) => unknown).call(layer, `${path}/x`) === true)
}
