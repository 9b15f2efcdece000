import type { Request, Response } from 'express'
import { DidAuthError } from '../errors.js'

/** Answers a request, or rejects with what is to be answered instead. */
export type Answer = (req: Request, res: Response) => Promise<void>

/** Answers a request for a challenge. `did` is what stood in its place, and nothing is known of it yet. */
export type AnswerForDid = (req: Request, res: Response, did: unknown) => Promise<void>

export interface Routes {
  /** By path, for POST. */
  posts: ReadonlyMap<string, Answer>
  /** By path, for GET and HEAD of `<path>/:did`. */
  gets: ReadonlyMap<string, AnswerForDid>
}

/** Finds what answers a request; undefined when it is none of ours. */
export type FindRoute = (req: Pick<Request, 'method' | 'path' | 'app'>) => Answer | undefined

/**
 * Makes the look-up of our routes: one look into a table, where Express would try a pattern for each route with every
 * request of the application. As in Express, neither case nor one slash at the end makes a difference, unless the
 * application says `case sensitive routing` or `strict routing`.
 */
export function routeFinder(routes: Routes): FindRoute {
  const posts = tableOf(routes.posts)
  const gets = tableOf(routes.gets)

  return ({ method, path, app }) => {
    if (method === 'POST') {
      const found = posts.get(routeKey(path))
      return found && isSpelt(app, path, found.path) ? found.answer : undefined
    }
    if (method !== 'GET' && method !== 'HEAD') return undefined
    const trimmed = withoutSlash(path)
    const slash = trimmed.lastIndexOf('/')
    const found = slash + 1 < trimmed.length ? gets.get(trimmed.slice(0, slash).toLowerCase()) : undefined
    if (found === undefined || !isSpelt(app, path, withoutSlash(found.path) + trimmed.slice(slash))) return undefined
    return async (req, res) => found.answer(req, res, decodeSegment(trimmed.slice(slash + 1)))
  }
}

function tableOf<T>(routes: ReadonlyMap<string, T>): Map<string, { path: string; answer: T }> {
  return new Map([...routes].map(([path, answer]) => [routeKey(path), { path, answer }]))
}

/** Asked only of a path that is ours but for its case and its last slash: others pay nothing for it. */
function isSpelt(app: Request['app'], given: string, configured: string): boolean {
  if (given === configured) return true
  if (app.enabled('strict routing') && given.endsWith('/') !== configured.endsWith('/')) return false
  return !app.enabled('case sensitive routing') || withoutSlash(given) === withoutSlash(configured)
}

function routeKey(path: string): string {
  return withoutSlash(path).toLowerCase()
}

function withoutSlash(path: string): string {
  return path.endsWith('/') ? path.slice(0, -1) : path
}

/** The only parameter is a DID. @throws DidAuthError ERR_DID when it is badly percent-encoded */
function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    throw new DidAuthError('ERR_DID')
  }
}
