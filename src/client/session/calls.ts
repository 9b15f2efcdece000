import { reuseToken, type CachedToken } from '../wire/cached-token.js'
import { NOT_SIGNED_IN, PROTOCOL } from '../wire/error-codes.js'
import { DidAuthClientError } from '../wire/errors.js'
import { parseFields } from '../wire/json.js'
import { decodeJwt } from '../wire/jwt.js'
import { ask, askJson, readRequiredText } from '../wire/request.js'
import type { AuthorizedInit } from './approve-request.js'
import type { Setting } from './options.js'

/** One of the user's sessions, times in whole seconds. */
export interface ListedSession {
  /** Id to end the session with. */
  readonly sessionId: string
  /** Time of the login, since the Unix epoch. */
  readonly createdAt: number
  /** Time of the last refresh, or of the login. */
  readonly refreshedAt: number
  /** Time at which the session ends unless it is refreshed. */
  readonly expiresAt: number
  /** Whether it is the session of this client. */
  readonly isCurrent: boolean
  /** Description of the client that logged in, such as `Chrome on Windows`, if the service stores it. */
  readonly description?: string
}

/** Requests to the routes for logged-in users. Each throws NOT_SIGNED_IN without a session. */
export interface SessionCalls {
  tokenFor(resource: string, refused?: string): Promise<string>
  list(): Promise<ListedSession[]>
  end(sessionId: string): Promise<void>
}

/** The part of a client that the calls need: requests with its session. */
interface LoggedInClient {
  readonly session: { readonly sessionId: string } | undefined
  fetch(input: string | URL | Request, init?: AuthorizedInit): Promise<Response>
}

/** Creates the calls of a client, which loads this module on demand. */
export function createCalls(setting: Setting, client: LoggedInClient): SessionCalls {
  const tokens = new Map<string, CachedToken>()
  // Requests carry the session's token, and a proof of its device, which the route of resource tokens needs.
  const deviceProof = !!setting.deviceKey
  const service: Setting = { ...setting, fetch: (url, init) => client.fetch(url, { ...init, deviceProof }) }
  const assertSession = (): string => {
    if (!client.session) throw new DidAuthClientError(NOT_SIGNED_IN)
    return client.session.sessionId
  }
  const askSessions = async (method: 'GET' | 'DELETE', path = ''): Promise<unknown> => {
    assertSession()
    return askJson(service, { method, path: (setting.paths.sessions ?? '/sessions') + path })
  }
  return {
    async tokenFor(resource, refused) {
      const sessionId = assertSession()
      return reuseToken(tokens, sessionId, resource, refused, service.nowSeconds, async () => {
        const path = service.paths.resourceToken ?? '/resource-token'
        const answer = await ask(service, { path, body: { resource } })
        const accessToken = readRequiredText(answer, 'accessToken')
        // Another user may have logged in, whose cookies the request then had.
        if (decodeJwt(accessToken)?.sid !== sessionId) throw new DidAuthClientError(NOT_SIGNED_IN)
        return [accessToken, Number(parseFields(answer.json).expiresIn)]
      })
    },

    async list() {
      const list = await askSessions('GET')
      if (!Array.isArray(list)) throw new DidAuthClientError(PROTOCOL)
      return list as ListedSession[]
    },

    async end(sessionId) {
      await askSessions('DELETE', `/${encodeURIComponent(sessionId)}`)
    }
  }
}
