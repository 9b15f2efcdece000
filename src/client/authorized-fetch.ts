import { parseFields, parseJson } from './json.js'
import type { Setting } from './options.js'
import { orUnavailable } from './request.js'
import type { SessionKeeper, SessionRecord } from './session-keeper.js'
import { unlessAborted } from './timing.js'

/**
 * `fetch` with the session's token for our origins, which is replaced before it ends, and once when the service says that
 * it has ended. Every other answer is the caller's, untouched. A redirect to another origin is followed without the token:
 * `fetch` removes it (Node 20, Chrome 119, Firefox 111, Safari 17).
 *
 * @param refresh - one refresh for all who ask at a time
 */
export async function authorizedFetch(
  setting: Setting,
  keeper: SessionKeeper,
  refresh: (stale: SessionRecord) => Promise<void>,
  input: string | URL | Request,
  init: RequestInit = {}
): Promise<Response> {
  const { url, origins, fetch, usesCookies } = setting
  const request = typeof input === 'object' && 'url' in input ? input : undefined
  // A path that begins with a slash is under the service's URL as well, which may be one with a path. A request has a URL.
  // eslint-disable-next-line @typescript-eslint/no-base-to-string -- what is no request is a string or a URL
  const path = request?.url ?? String(input).replace(/^\/(?!\/)/, './')
  const { href, origin } = new URL(path, `${url}/`)
  const resource = request ?? href
  if (!origins.has(origin)) return fetch(resource, init)

  const signal = init.signal ?? request?.signal
  const send = async (record: SessionRecord | undefined): Promise<Response> => {
    const headers = new Headers(init.headers ?? request?.headers)
    headers.set('Accept', `${headers.get('Accept') ?? '*/*'}, application/problem+json`)
    const token = record?.accessToken
    if (token && !headers.has('Authorization')) headers.set('Authorization', `DIDAuth ${token}`)
    return orUnavailable(href, signal, () =>
      fetch(resource, { ...(usesCookies && { credentials: 'include' }), ...init, headers })
    )
  }

  const { record } = keeper
  if (record && keeper.isNearEnd()) {
    await unlessAborted(refresh(record), signal).catch((error: unknown) => {
      // A token that is still good serves while the service cannot refresh it.
      if (parseFields(error).code !== 'UNAVAILABLE' || keeper.hasEnded()) throw error
    })
  }
  const used = keeper.record
  const response = await send(used)
  if (!used || !(await isExpired(response)) || !canRepeat(init.body ?? request?.body)) return response
  // Another request may have refreshed meanwhile.
  if (keeper.record?.pair === used.pair) await unlessAborted(refresh(used), signal)
  return send(keeper.record)
}

async function isExpired(response: Response): Promise<boolean> {
  if (response.status !== 401) return false
  return parseFields(parseJson(await response.clone().text())).code === 'ERR_ACCESS_TOKEN_EXPIRED'
}

/** What is read while it is sent cannot be sent again. */
function canRepeat(body: object | string | null | undefined): boolean {
  return !body || typeof body === 'string' || !('getReader' in body || Symbol.asyncIterator in body)
}
