import type { Request, Response } from 'express'

/** Answers a request, or rejects with the error to answer. The parameter is what its path ends with, not parsed yet. */
export type Answer = (req: Request, res: Response, parameter?: unknown) => Promise<void>

/** A route of the library: `path` itself, or `path/:parameter`. A GET answers HEAD as well. */
export interface Route {
  method: 'GET' | 'POST' | 'DELETE'
  path: string
  hasParameter?: true
  answer: Answer
}

/**
 * Makes the look-up of our routes: one or two looks into a table, where Express would try a pattern for each route with
 * every request of the application. As in Express, neither case nor one slash at the end makes a difference, unless the
 * application says `case sensitive routing` or `strict routing`. It finds undefined for a request of the application.
 */
export function createRouteFinder(
  routes: readonly Route[]
): (req: Pick<Request, 'method' | 'path' | 'app'>) => { answer: Answer; parameter?: string | undefined } | undefined {
  // No path of a request has a blank.
  const table = new Map(
    routes.map((route) => [toRouteKey(route.method, route.path) + (route.hasParameter ? ' :' : ''), route])
  )
  return ({ method: received, path, app }) => {
    const method = received === 'HEAD' ? 'GET' : received
    const found = table.get(toRouteKey(method, path))
    if (found !== undefined && hasSameSpelling(app, path, found.path)) return found
    const trimmed = trimSlash(path)
    const slash = trimmed.lastIndexOf('/')
    const parent = table.get(`${toRouteKey(method, trimmed.slice(0, slash))} :`)
    const isParent = parent !== undefined && slash + 1 < trimmed.length
    if (!isParent || !hasSameSpelling(app, path, trimSlash(parent.path) + trimmed.slice(slash))) return undefined
    return { answer: parent.answer, parameter: decodeSegment(trimmed.slice(slash + 1)) }
  }
}

/** Whether a path has the configured spelling. Called only if the two differ at most in case and last slash. */
function hasSameSpelling(app: Request['app'], path: string, configured: string): boolean {
  if (path === configured) return true
  if (app.enabled('strict routing') && path.endsWith('/') !== configured.endsWith('/')) return false
  return !app.enabled('case sensitive routing') || trimSlash(path) === trimSlash(configured)
}

function toRouteKey(method: string, path: string): string {
  return `${method} ${trimSlash(path).toLowerCase()}`
}

function trimSlash(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path
}

/** Decodes a segment; undefined if it is badly percent-encoded: the route decides what that means. */
function decodeSegment(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}
