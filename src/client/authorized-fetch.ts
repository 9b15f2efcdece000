import type { AuthorizedInit, RefusedRequest } from './approve-request.js'
import { parseFields, parseJson } from './json.js'
import type { Setting } from './options.js'
import { orUnavailable } from './request.js'
import type { SessionKeeper, SessionRecord } from './session-keeper.js'
import { unlessAborted } from './timing.js'

/**
 * `fetch` with the session's token for our origins, which is replaced before it ends, and once when the service says
 * that it has ended. Every other answer is the caller's, untouched. A redirect to another origin is followed without
 * the token: `fetch` removes it (Node 20, Chrome 119, Firefox 111, Safari 17).
 *
 * @param refresh - one refresh for all who ask at a time
 * @param approve - has a request signed that was refused for want of that
 */
export async function authorizedFetch(
  setting: Setting,
  keeper: SessionKeeper,
  refresh: (stale: SessionRecord) => Promise<void>,
  approve: (refused: RefusedRequest) => Promise<Response>,
  input: string | URL | Request,
  init: AuthorizedInit = {}
): Promise<Response> {
  const { url, origins, fetch, usesCookies } = setting
  const request = typeof input === 'object' && 'url' in input ? input : undefined
  // A path that begins with a slash is under the service's URL as well, which may be one with a path. A request has a
  // URL.
  // eslint-disable-next-line @typescript-eslint/no-base-to-string -- anything but a request is a string or a URL
  const path = request?.url ?? String(input).replace(/^\/(?!\/)/, './')
  const { href, origin } = new URL(path, `${url}/`)
  const resource = request ?? href
  if (!origins.has(origin)) return fetch(resource, init)

  const signal = init.signal ?? request?.signal
  const send = async (record: SessionRecord | undefined, init: RequestInit): Promise<Response> => {
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
  let response = await send(used, init)
  if (!used || !canRepeat(init.body ?? request?.body)) return response
  if (await isExpired(response)) {
    // Another request may have refreshed meanwhile.
    if (keeper.record?.pair === used.pair) await unlessAborted(refresh(used), signal)
    response = await send(keeper.record, init)
  }
  if (!init.approve || response.status !== 403) return response
  // The wallet may be open for longer than the token is good.
  const once = (again: AuthorizedInit): Promise<Response> =>
    authorizedFetch(setting, keeper, refresh, approve, input, again)
  return approve({ response, href, init, request, send: once })
}

async function isExpired(response: Response): Promise<boolean> {
  if (response.status !== 401) return false
  return parseFields(parseJson(await response.clone().text())).code === 'ERR_ACCESS_TOKEN_EXPIRED'
}

/** What is read while it is sent cannot be sent again. */
function canRepeat(body: object | string | null | undefined): boolean {
  return !body || typeof body === 'string' || !('getReader' in body || Symbol.asyncIterator in body)
}
