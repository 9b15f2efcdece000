import { makeButton, describeError } from './answer.js'
import { getElement, make, relayUrl, usesCookies, vaultUrl, write } from './elements.js'

/** A request and its response, for showing. */
export interface Exchange {
  method: string
  url: URL
  requestHeaders: [name: string, value: string][]
  requestBody: string
  /** Undefined while the request is in flight, or if it failed with `failure`. */
  answer?: { status: number; statusText: string; headers: [name: string, value: string][]; body: string }
  failure?: string
  milliseconds?: number
}

/** Explanations of requests by method and path. The first match applies. */
const ABOUT: readonly [request: RegExp, about: string][] = [
  [/^POST \/request-signup$/, 'Request a challenge, and the list of what new users must present'],
  [/^POST \/request-auth$/, 'Request a challenge for this DID. Only this server can create it'],
  [/^POST \/signup$/, 'Sign up with the signature, and receive tokens'],
  [/^POST \/siwe\/nonce$/, 'Request a nonce. It makes the EIP-4361 text valid for one login, by any account'],
  [/^POST \/(?:auth|siwe\/verify)$/, 'Exchange the signature for tokens'],
  [/^POST \/refresh-token$/, 'Exchange the refresh token for new tokens. The idempotency key makes a retry safe'],
  [/^POST \/logout$/, 'End this session'],
  [/^POST \/resource-token$/, 'Request a token for another server. One signature is enough for all three servers'],
  [/^GET \/me$/, 'Call a protected route. The middleware verifies the access token'],
  [/^GET \/session$/, 'Ask whether the cookies are valid'],
  [/^GET \/sessions$/, 'List the sessions of this DID'],
  [/^DELETE \/sessions\//, 'End a session'],
  [/^POST \/file$/, 'Post the encrypted file'],
  [/^GET \/file\//, 'Get the encrypted file'],
  [/^GET \/(keys|storage|backup)$/, 'Ask what the vault stores for this DID'],
  [/^GET \/did/, 'Read a list. Everybody may read'],
  [/^POST \//, 'Add an entry to a list'],
  [/^PUT \//, 'Replace an entry'],
  [/^DELETE \//, 'Delete an entry']
]

/** Long values, of which the middle is left out: tokens, signatures and ciphertexts. A DID or CID is shorter. */
const LONG = /[\w.+/=…-]{64,}/g
/** Names in a path that are shortened in the same way: addresses of DIDs, CIDs and ids. */
const LONG_NAME = /[\w-]{20,}/g
const MAX_SHOWN = 20_000

/** Response headers that matter to users. The long form shows all headers. */
const TELLING =
  /^(?:cache-control|challenge-expires-in|content-type|etag|file-expires-in|idempotent-replayed|pin-status|retry-after|www-authenticate)$/

const SERVERS = Object.entries({ auth: location.origin, relay: relayUrl, vault: vaultUrl })
const SETS_COOKIES = /^\/(?:auth|siwe\/verify|signup|refresh-token|logout)$/
const COOKIES = 'set-cookie: authorization=…; refresh-token=… (HttpOnly: the browser shows them to no script)'
const SIGNING = 'Your key signs this text. The signature proves the DID, and is valid for one login'

const list = getElement('exchanges', HTMLOListElement)
/** Name of the button that the user pressed last. The next request clears it. */
let action = ''

getElement('clear').addEventListener('click', () => list.replaceChildren())

// The name of the button is shown above its requests. The Enter key in a form also clicks its button.
document.addEventListener(
  'click',
  ({ target }) => {
    const button = target instanceof Element ? target.closest('button') : null
    if (button?.ariaBusy !== 'true') action = button?.ariaLabel ?? button?.textContent ?? ''
  },
  true
)

/** Creates a `fetch` that shows each exchange, and calls `onAnswer` after the response. It changes nothing. */
export function fetchAndShow(onAnswer: (exchange: Exchange) => void): typeof fetch {
  return async (input, init) => {
    const request = new Request(input, init)
    const { method, headers } = request
    const requestBody = await request.clone().text()
    const exchange: Exchange = { method, url: new URL(request.url), requestHeaders: [...headers], requestBody }
    const update = showExchange(exchange)
    const startedAt = performance.now()
    try {
      const response = await fetch(request)
      exchange.milliseconds = performance.now() - startedAt
      const { status, statusText } = response
      // Read the copy at once: a client may abort its request once it has read the response, which aborts the copy.
      const text = response.clone().text()
      const body = await text.catch(() => '(the response was interrupted)')
      exchange.answer = { status, statusText, headers: [...response.headers], body }
      onAnswer(exchange)
      return response
    } catch (error) {
      exchange.failure = error instanceof Error ? error.message : String(error)
      throw error
    } finally {
      update()
    }
  }
}

function showExchange(exchange: Exchange): () => void {
  const { method, url } = exchange
  const [where = url.host] = SERVERS.find(([, base]) => base !== '' && url.href.startsWith(base)) ?? []
  const hiddenHeaders = usesCookies && where === 'auth' && SETS_COOKIES.test(url.pathname) ? [COOKIES] : []
  // Decoded, so that users read `did:ethr` and not `did%3Aethr`.
  const path = decodeURIComponent(url.pathname).replace(LONG_NAME, (name) => cutMiddle(name, 6, 4))
  return addEntry([method, path, explainRequest(exchange), where], (isShort) => ({
    ...describeState(exchange),
    parts: listParts(exchange, isShort, hiddenHeaders)
  }))
}

/** Gets a text signed, and shows that like a request, because the signature explains the next request. */
export async function signAndShow(text: string, sign: () => Promise<string> | string): Promise<string> {
  const shown = { state: '…', kind: 'success', answer: '' }
  const update = addEntry(['SIGN', 'personal_sign', SIGNING, 'key'], () => ({
    ...shown,
    parts: Object.entries({ Text: text, Result: shown.answer })
  }))
  try {
    const answer = await sign()
    Object.assign(shown, { state: 'signed', answer })
    return answer
  } catch (error) {
    Object.assign(shown, { state: 'not signed', kind: 'error', answer: describeError(error) })
    throw error
  } finally {
    update()
  }
}

/** Computes the current view of an entry, in the short or the long form. */
type View = (isShort: boolean) => { state: string; kind: string; parts: [title: string, text: string][] }

/** Adds an entry to the list. @returns a function that updates the entry */
function addEntry([method, path, about, where]: [string, string, string, string], view: View): () => void {
  const stateText = make('span', { class: 'state' })
  const body = make('div', { class: 'parts' })
  const summary = make(
    'summary',
    {},
    make('span', { class: 'method' }, method),
    make('span', { class: 'path' }, path),
    stateText,
    make('span', { class: 'about' }, make('span', { class: 'where' }, where), about)
  )
  const details = make('details', { class: 'exchange' }, summary, body)
  let isShort = true
  const toggle = makeButton('Show everything', 'Show everything', async () => {
    isShort = !isShort
    toggle.ariaLabel = toggle.textContent = isShort ? 'Show everything' : 'Show less'
    update()
  })
  const update = (): void => {
    const { state, kind, parts } = view(isShort)
    stateText.textContent = state
    stateText.dataset.kind = kind
    if (!details.open) return
    const formatText = isShort ? shorten : String
    const blocks = parts.flatMap(([title, text]) => [make('h3', {}, title), make('pre', {}, formatText(text))])
    body.replaceChildren(...blocks, toggle)
  }
  details.addEventListener('toggle', update)
  if (action !== '') add(make('li', { class: 'action' }, action))
  action = ''
  add(make('li', {}, details))
  const showLatest = (): void => {
    update()
    write('wire-bar', `Last request: ${method} ${path} ${view(isShort).state}`)
  }
  showLatest()
  return showLatest
}

function add(item: HTMLLIElement): void {
  list.append(item)
  const wire = getElement('wire')
  // Scrolls only the column. On a phone, which has no column, the page keeps its position.
  wire.scrollTop = wire.scrollHeight
}

const cutMiddle = (text: string, start: number, end: number): string => `${text.slice(0, start)}…${text.slice(-end)}`
const shorten = (text: string): string => text.replace(LONG, (long) => cutMiddle(long, 14, 6))

/** Returns the explanation of a request; empty for unknown requests. */
const explainRequest = ({ method, url }: Exchange): string =>
  ABOUT.find(([request]) => request.test(`${method} ${url.pathname}`))?.[1] ?? ''

function describeState({ answer, failure, milliseconds = 0 }: Exchange): { state: string; kind: string } {
  if (failure !== undefined) return { state: 'no response', kind: 'error' }
  if (answer === undefined) return { state: '…', kind: 'warning' }
  const kind = answer.status < 400 ? 'success' : answer.status < 500 ? 'warning' : 'error'
  return { state: `${answer.status} · ${Math.round(milliseconds)} ms`, kind }
}

/** Lists a request and its response in HTTP notation, with the hidden headers. The short form omits most headers. */
function listParts(
  exchange: Exchange,
  isShort: boolean,
  hiddenHeaders: readonly string[]
): [title: string, text: string][] {
  const { method, url, requestHeaders, requestBody, answer, failure } = exchange
  const line = `${method} ${url.pathname}${url.search} HTTP/1.1`
  const request = formatMessage([line, `host: ${url.host}`, ...requestHeaders.map(formatHeader)], requestBody)
  if (failure !== undefined) return Object.entries({ Request: request, Response: `None: ${failure}` })
  if (answer === undefined) return Object.entries({ Request: request })
  const headers = answer.headers.filter(([name]) => !isShort || TELLING.test(name)).map(formatHeader)
  const status = `HTTP/1.1 ${answer.status} ${answer.statusText}`
  const response = formatMessage([status, ...headers, ...hiddenHeaders], answer.body)
  return Object.entries({ Request: request, Response: response })
}

const formatHeader = ([name, value]: readonly [string, string]): string => `${name}: ${value}`
const formatMessage = (lines: readonly string[], body: string): string =>
  [...lines, '', formatJson(body)].join('\n').trim()

function formatJson(body: string): string {
  if (body.length > MAX_SHOWN) return `${cutMiddle(body, MAX_SHOWN / 2, MAX_SHOWN / 2)} (${body.length} characters)`
  try {
    return JSON.stringify(JSON.parse(body), undefined, 2)
  } catch {
    return body
  }
}
