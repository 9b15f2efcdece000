import type { Request, Response } from 'express'

/** Answers a request, or rejects with the error to answer. */
export type Answer = (req: Request, res: Response) => Promise<void>

/** Answers a request whose path ends with a parameter, which is not parsed yet. */
export type AnswerWithParameter = (req: Request, res: Response, parameter: unknown) => Promise<void>

export type Method = 'GET' | 'POST' | 'DELETE'

/** One of our routes: `path` itself, or `path/:parameter`. A GET answers HEAD as well. */
export type Route =
  | { method: Method; path: string; answer: Answer }
  | { method: Method; path: string; answerWithParameter: AnswerWithParameter }

/** Finds the route of a request; undefined for a request of the application. */
export type FindRoute = (req: Pick<Request, 'method' | 'path' | 'app'>) => Answer | undefined

/**
 * Makes the look-up of our routes: one or two looks into a table, where Express would try a pattern for each route with
 * every request of the application. As in Express, neither case nor one slash at the end makes a difference, unless the
 * application says `case sensitive routing` or `strict routing`.
 */
export function routeFinder(routes: readonly Route[]): FindRoute {
  const exact = new Map<string, { path: string; answer: Answer }>()
  const withParameter = new Map<string, { path: string; answer: AnswerWithParameter }>()
  for (const route of routes) {
    const key = routeKey(route.method, route.path)
    if ('answer' in route) exact.set(key, route)
    else withParameter.set(key, { path: withoutSlash(route.path), answer: route.answerWithParameter })
  }

  return ({ method: received, path, app }) => {
    const method = received === 'HEAD' ? 'GET' : received
    const found = exact.get(routeKey(method, path))
    if (found !== undefined && isSpelt(app, path, found.path)) return found.answer
    const trimmed = withoutSlash(path)
    const slash = trimmed.lastIndexOf('/')
    if (slash + 1 === trimmed.length) return undefined
    const parent = withParameter.get(routeKey(method, trimmed.slice(0, slash)))
    if (parent === undefined || !isSpelt(app, path, parent.path + trimmed.slice(slash))) return undefined
    return async (req, res) => parent.answer(req, res, decodeSegment(trimmed.slice(slash + 1)))
  }
}

/** Called only for a path that equals ours but for case and last slash, so that other requests are not slowed down. */
function isSpelt(app: Request['app'], given: string, configured: string): boolean {
  if (given === configured) return true
  if (app.enabled('strict routing') && given.endsWith('/') !== configured.endsWith('/')) return false
  return !app.enabled('case sensitive routing') || withoutSlash(given) === withoutSlash(configured)
}

function routeKey(method: string, path: string): string {
  return `${method} ${withoutSlash(path).toLowerCase()}`
}

function withoutSlash(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path
}

/** Undefined when it is badly percent-encoded: the route decides what that means. */
function decodeSegment(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined
  }
}
