import { raceWithAbort } from './timing.js'

/** What a client of relay or vault needs of the `DidAuthClient` of another service, which issues tokens for it. */
export interface ResourceAuth {
  tokenFor(resource: string, refused?: string): Promise<string>
  readonly session: { readonly did: string } | undefined
}

/** Which client is logged in, and for what it asks tokens. */
export interface ResourceOptions {
  readonly auth: ResourceAuth
  /** The service, as the one of `auth` has it in `resources`. */
  readonly resource: string
}

type Fetch = (url: string, init: RequestInit) => Promise<Response>

/** `fetch` with a token for a resource; once more with another where the resource refuses it. */
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
