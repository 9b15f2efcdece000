import { browser } from './browser.js'
import { ProtocolError, UnavailableError } from './errors.js'
import { parseJson, type Service } from './service-calls.js'
import type { SessionKeeper } from './session-keeper.js'
import type { SessionRecord } from './session-record.js'
import { unlessAborted } from './timing.js'
import { fieldOf } from './wallet.js'

const PROBLEM = 'application/problem+json'
const MAX_REDIRECTS = 5

export interface FetchParts {
  readonly service: Service
  readonly keeper: SessionKeeper
  /** Those that get the token: the service's own and further ones. */
  readonly origins: ReadonlySet<string>
  /** One refresh for all who ask at a time. */
  readonly refresh: (stale: SessionRecord) => Promise<void>
}

/**
 * `fetch` with the session's token for our origins, which is replaced before it ends, and once when the service says that
 * it has ended. Every other answer is the caller's, untouched.
 */
export async function authorizedFetch(
  parts: FetchParts,
  input: string | URL | Request,
  init: RequestInit = {}
): Promise<Response> {
  const { service, keeper } = parts
  const request = typeof input === 'object' && 'headers' in input ? input : undefined
  const target = new URL(request?.url ?? String(input), `${service.url}/`)
  if (!parts.origins.has(target.origin)) return service.fetch(request ?? target, init)

  const signal = init.signal ?? request?.signal
  const canRepeat = init.body ? !isStream(init.body) : !request?.body
  const send = async (record: SessionRecord | undefined): Promise<Response> => {
    try {
      return await sendOnce(parts, target, request, withHeaders(service, record, request, init))
    } catch (cause) {
      signal?.throwIfAborted()
      if (cause instanceof ProtocolError) throw cause
      throw new UnavailableError({ message: `${target.href} failed: ${String(cause)}`, cause })
    }
  }

  if (keeper.record && keeper.needsRefresh) await unlessAborted(refreshEarly(parts, keeper.record), signal)
  const used = keeper.record
  const response = await send(used)
  if (used === undefined || !canRepeat || !(await isExpired(response))) return response
  // Another request may have refreshed meanwhile.
  if (keeper.record?.pair === used.pair) await unlessAborted(parts.refresh(used), signal)
  return send(keeper.record)
}

/** A token that is still good serves while the service cannot refresh it. */
async function refreshEarly({ keeper, refresh }: FetchParts, record: SessionRecord): Promise<void> {
  try {
    await refresh(record)
  } catch (error) {
    if (!(error instanceof UnavailableError) || keeper.secondsLeft <= 0) throw error
  }
}

function withHeaders(
  { usesCookies }: Service,
  record: SessionRecord | undefined,
  request: Request | undefined,
  init: RequestInit
): RequestInit {
  const headers = new Headers(init.headers ?? request?.headers)
  const accept = headers.get('Accept') ?? '*/*'
  if (!accept.includes(PROBLEM)) headers.set('Accept', `${accept}, ${PROBLEM}`)
  if (usesCookies) return { credentials: 'include', ...init, headers }
  if (record?.accessToken && !headers.has('Authorization'))
    headers.set('Authorization', `DIDAuth ${record.accessToken}`)
  return { ...init, headers }
}

/**
 * Sends a request whose token goes to no other origin. Where the browser follows redirects, it is told to stay at the page's
 * origin; at another one it does not tell where a redirect leads, so that none is followed.
 */
async function sendOnce(
  { service, origins }: FetchParts,
  target: URL,
  request: Request | undefined,
  init: RequestInit
): Promise<Response> {
  const { fetch, usesCookies } = service
  const redirect = init.redirect ?? request?.redirect ?? 'follow'
  if (usesCookies || redirect !== 'follow') return fetch(request ?? target, init)
  if (browser.location?.origin === target.origin) return fetch(request ?? target, { mode: 'same-origin', ...init })

  const method = (init.method ?? request?.method ?? 'GET').toUpperCase()
  for (let [url, redirects] = [target, 0]; ; redirects += 1) {
    const response = await fetch(redirects === 0 && request ? request : url, { ...init, redirect: 'manual' })
    const location = response.headers.get('Location')
    const isRedirect =
      response.type === 'opaqueredirect' || (location !== null && /^30[12378]$/.test(`${response.status}`))
    if (!isRedirect) return response
    if (location !== null) url = new URL(location, url)
    if (
      location === null ||
      !origins.has(url.origin) ||
      !/^(?:GET|HEAD)$/.test(method) ||
      redirects === MAX_REDIRECTS
    ) {
      throw new ProtocolError({
        message: `${target.href} redirects: ask for the final address`,
        status: response.status
      })
    }
  }
}

async function isExpired(response: Response): Promise<boolean> {
  if (response.status !== 401 || !response.headers.get('Content-Type')?.startsWith(PROBLEM)) return false
  return fieldOf(parseJson(await response.clone().text()), 'code') === 'ERR_ACCESS_TOKEN_EXPIRED'
}

/** What is read while it is sent cannot be sent again. */
function isStream(body: object | string): boolean {
  return typeof body === 'object' && ('getReader' in body || Symbol.asyncIterator in body)
}
