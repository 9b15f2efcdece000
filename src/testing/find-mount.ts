import { findService, type MountedService } from '../adapters/mounted-services.js'
import { isObject, readField } from '../protocol/json.js'

/** Common path prefixes of APIs, for a URL and for an Express version that does not expose its paths. */
const USUAL_PATHS = ['/api', '/auth', '/api/auth', '/v1', '/api/v1']

const MAX_DEPTH = 8
const LITERAL_PATH = /^(?:\/[\w.~-]+)*\/?$/
/** Matches the source of the RegExp that Express 4 creates for a literal path, not for a pattern. */
const LITERAL_REGEXP = /^\^((?:\\\/[\w~-]+(?:\\\.[\w~-]+)*)+)\\\/\?\(\?=\\\/\|\$\)$/

/** A path prefix that the login routes may have, and their service if it was found. */
export interface Mount {
  path: string
  service?: MountedService | undefined
}

/** Finds the path prefixes of login routes. Those of services in this process are certain; all others are guesses. */
export function findMounts(app: unknown): Mount[] {
  const mounts = inspectApp(app, '', 0)
  const certainMounts = mounts.filter(({ service }) => service !== undefined)
  if (certainMounts.length > 0) return certainMounts
  return ['', ...mounts.map(({ path }) => path), ...USUAL_PATHS].map((path) => ({ path }))
}

function inspectApp(app: unknown, path: string, depth: number): Mount[] {
  if (typeof app !== 'function' || depth > MAX_DEPTH) return []
  const layers = readStack(app).flatMap((layer) => {
    const layerPath = readPath(layer)
    return layerPath === undefined ? [] : inspectApp(readField(layer, 'handle'), path + layerPath, depth + 1)
  })
  const service = findService(app)
  // Express hides a mounted application in a function of this name.
  const isHidden = app.name === 'mounted_app'
  return service === undefined && !isHidden ? layers : [{ path, service }, ...layers]
}

/** Returns the layers of an application or router of Express 4 or 5. */
function readStack(app: object): readonly unknown[] {
  // Reading `router` of an Express 4 application throws.
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
function readPath(layer: unknown): string | undefined {
  if (!isObject(layer)) return undefined
  const { rawPath, regexp, slash, match } = layer
  if (slash === true || readField(regexp, 'fast_slash') === true) return ''
  if (typeof rawPath === 'string') return LITERAL_PATH.test(rawPath) ? rawPath.replace(/\/$/, '') : undefined
  if (regexp instanceof RegExp) return LITERAL_REGEXP.exec(regexp.source)?.[1]?.replaceAll('\\', '')
  // Versions of Express 5 that expose no paths can only be matched against guesses.
  if (typeof match !== 'function') return undefined
  return USUAL_PATHS.find((path) => (match as (path: string) => unknown).call(layer, `${path}/x`) === true)
}
