/** A request with its answer, as it is shown. */
export interface Exchange {
  method: string
  url: URL
  requestHeaders: [name: string, value: string][]
  requestBody: string
  /** Undefined while it is under way, or when there was none. */
  answer?: { status: number; statusText: string; headers: [name: string, value: string][]; body: string }
  /** Why there was no answer. */
  failure?: string
  milliseconds?: number
}

/** What each request is for, by method and path. The first that fits counts. */
const ABOUT: readonly [request: RegExp, about: string][] = [
  [/^POST \/request-signup$/, 'Ask for a challenge, and what the service asks of new users'],
  [/^POST \/request-auth$/, 'Ask for a challenge: a text that only this server can have made, for this DID'],
  [/^POST \/signup$/, 'Sign up with the signature, and receive tokens'],
  [/^POST \/siwe\/nonce$/, 'Ask for a nonce: what makes the text of EIP-4361 good once, for any account'],
  [/^POST \/(?:auth|siwe\/verify)$/, 'Exchange the signature for tokens'],
  [/^POST \/refresh-token$/, 'Exchange the refresh token for the next pair; the idempotency key makes a repeat safe'],
  [/^POST \/logout$/, 'End this session'],
  [/^POST \/resource-token$/, 'Ask for a token for another server: one signature is good for all three'],
  [/^GET \/me$/, 'A protected route: the middleware verified the access token'],
  [/^GET \/session$/, 'Ask whether the cookies are good'],
  [/^GET \/sessions$/, 'List the sessions of this DID'],
  [/^DELETE \/sessions\//, 'End a session'],
  [/^POST \/file$/, 'Post the encrypted file'],
  [/^GET \/file\//, 'Get the encrypted file'],
  [/^GET \/(keys|storage|backup)$/, 'Ask what the vault keeps for this DID'],
  [/^GET \/did/, 'Read a list; everybody may'],
  [/^POST \//, 'Add an entry to a list'],
  [/^PUT \//, 'Replace an entry'],
  [/^DELETE \//, 'Delete an entry']
]

/** Tokens, signatures and ciphertexts. A DID or a cid is shorter. */
const LONG = /[\w.+/=-]{64,}/g
const MAX_SHOWN = 20_000

/** Headers of answers that mean something here. The others show together with long values. */
const TELLING =
  /^(?:cache-control|challenge-expires-in|content-type|etag|file-expires-in|idempotent-replayed|pin-status|retry-after|www-authenticate)$/

/** Long values by their beginning and end. */
export const shorten = (text: string): string => text.replace(LONG, (long) => `${long.slice(0, 14)}…${long.slice(-6)}`)

/** What a request is for. Empty for one that is not of these servers. */
export const aboutOf = ({ method, url }: Exchange): string =>
  ABOUT.find(([request]) => request.test(`${method} ${url.pathname}`))?.[1] ?? ''

/** How a request went, in two words. */
export function stateOf({ answer, failure, milliseconds = 0 }: Exchange): { state: string; kind: string } {
  if (failure !== undefined) return { state: 'no answer', kind: 'bad' }
  if (answer === undefined) return { state: '…', kind: 'odd' }
  const kind = answer.status < 400 ? 'good' : answer.status < 500 ? 'odd' : 'bad'
  return { state: `${answer.status} · ${Math.round(milliseconds)} ms`, kind }
}

/** A request and its answer, as HTTP writes them: with `unseen`, which browsers hide; short without most headers. */
export function partsOf(
  exchange: Exchange,
  isShort: boolean,
  unseen: readonly string[]
): [title: string, text: string][] {
  const { method, url, requestHeaders, requestBody, answer, failure } = exchange
  const line = `${method} ${url.pathname}${url.search} HTTP/1.1`
  const request = message([line, `host: ${url.host}`, ...requestHeaders.map(headerLine)], requestBody)
  const headers = (answer?.headers ?? []).filter(([name]) => !isShort || TELLING.test(name)).map(headerLine)
  const status = `HTTP/1.1 ${answer?.status ?? ''} ${answer?.statusText ?? ''}`
  const received =
    failure === undefined ? message([status, ...headers, ...unseen], answer?.body ?? '') : `None: ${failure}`
  const parts: [string, string][] = [['Request', request]]
  return answer === undefined && failure === undefined ? parts : [...parts, ['Answer', received]]
}

const headerLine = ([name, value]: readonly [string, string]): string => `${name}: ${value}`
const message = (lines: readonly string[], body: string): string => [...lines, '', pretty(body)].join('\n').trim()

function pretty(body: string): string {
  if (body.length > MAX_SHOWN) return `${body.slice(0, MAX_SHOWN)}… (${body.length} characters)`
  try {
    return JSON.stringify(JSON.parse(body), undefined, 2)
  } catch {
    return body
  }
}
