import { raceWithAbort } from './timing.js'

/** The part of a `DidAuthClient` that clients of relay and vault need. Its service issues their tokens. */
export interface ResourceAuth {
  /** Returns a token for a resource. `refused`: a cached token that the resource refused. */
  tokenFor(resource: string, refused?: string): Promise<string>
  /** The current session. Undefined if no user is logged in. */
  readonly session: { readonly did: string } | undefined
}

/** A logged-in client, and the service that it requests tokens for. */
export interface ResourceOptions {
  readonly auth: ResourceAuth
  /** URL of the service, as the service of `auth` lists it in `resources`. */
  readonly resource: string
}

type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** Creates a `fetch` that sends a token for a resource. It retries once with a new token if the first is refused. */
export function createResourceFetch({ auth, resource }: ResourceOptions, fetch: Fetch = globalThis.fetch): Fetch {
  return async (url, init) => {
    const send = async (token: string): Promise<Response> => {
      const headers = new Headers(init.headers)
      headers.set('Authorization', `Bearer ${token}`)
      return fetch(url, { ...init, headers })
    }
    const token = await raceWithAbort(auth.tokenFor(resource), init.signal)
    const response = await send(token)
    if (response.status !== 401) return response
    return send(await raceWithAbort(auth.tokenFor(resource, token), init.signal))
  }
}
