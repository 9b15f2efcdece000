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

/**
 * Makes the look-up of our routes: one look into a table, where Express would try a pattern for each route with every
 * request of the application. As in Express, neither case nor one slash at the end makes a difference.
 */
export function routeFinder(routes: Routes): (method: string, path: string) => Answer | undefined {
  const posts = new Map([...routes.posts].map(([path, answer]) => [routeKey(path), answer]))
  const gets = new Map([...routes.gets].map(([path, answer]) => [routeKey(path), answer]))

  return (method, path) => {
    if (method === 'POST') return posts.get(routeKey(path))
    if (method !== 'GET' && method !== 'HEAD') return undefined
    const trimmed = withoutSlash(path)
    const slash = trimmed.lastIndexOf('/')
    const answer = slash + 1 < trimmed.length ? gets.get(trimmed.slice(0, slash).toLowerCase()) : undefined
    return answer && (async (req, res) => answer(req, res, decodeSegment(trimmed.slice(slash + 1))))
  }
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
