import { makeButton, describeError } from './answer.js'
import { getElement, make, relayUrl, usesCookies, vaultUrl, write } from './elements.js'

/** A request with its response, as the page shows it. */
export interface Exchange {
  method: string
  url: URL
  requestHeaders: [name: string, value: string][]
  requestBody: string
  /** Undefined while the request runs, or if there is none because of `failure`. */
  answer?: { status: number; statusText: string; headers: [name: string, value: string][]; body: string }
  failure?: string
  milliseconds?: number
}

/** Explanations of requests by method and path. The first match counts. */
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

/** Response headers that matter to users. The others are shown together with long values. */
const TELLING =
  /^(?:cache-control|challenge-expires-in|content-type|etag|file-expires-in|idempotent-replayed|pin-status|retry-after|www-authenticate)$/

const SERVERS = Object.entries({ auth: location.origin, relay: relayUrl, vault: vaultUrl })
const SETS_COOKIES = /^\/(?:auth|siwe\/verify|signup|refresh-token|logout)$/
const COOKIES = 'set-cookie: authorization=…; refresh-token=… (HttpOnly: the browser shows them to no script)'
const SIGNING = 'The wallet signs this text, which proves the DID, and is good for one login'

const list = getElement('exchanges', HTMLOListElement)
/** The button that the user pressed last, until a request follows. */
let action = ''

getElement('clear').addEventListener('click', () => list.replaceChildren())

// Remembers the button, whose name is shown above its requests. The Enter key in a form clicks its button as well.
document.addEventListener(
  'click',
  ({ target }) => {
    const button = target instanceof Element ? target.closest('button') : null
    if (button?.ariaBusy !== 'true') action = button?.ariaLabel ?? button?.textContent ?? ''
  },
  true
)

/** Creates a `fetch` that shows each exchange and passes it on after its response. It changes neither of them. */
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
      // Read at once: the client ends the request when it has read its answer, and with it this copy.
      const text = response.clone().text()
      const body = await text.catch(() => '(the answer broke off)')
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
  const unseen = usesCookies && where === 'auth' && SETS_COOKIES.test(url.pathname) ? [COOKIES] : []
  // `did%3Aethr…` as people read it.
  return addEntry([method, decodeURIComponent(url.pathname), explainRequest(exchange), where], (isShort) => ({
    ...describeState(exchange),
    parts: listParts(exchange, isShort, unseen)
  }))
}

/** Lets a wallet sign and shows that. No request is sent, but the signature explains the next one. */
export async function signAndShow(text: string, sign: () => Promise<string> | string): Promise<string> {
  const shown = { state: '…', kind: 'good', answer: '' }
  const update = addEntry(['SIGN', 'personal_sign', SIGNING, 'wallet'], () => ({
    ...shown,
    parts: Object.entries({ Text: text, Answer: shown.answer })
  }))
  try {
    const answer = await sign()
    Object.assign(shown, { state: 'signed', answer })
    return answer
  } catch (error) {
    Object.assign(shown, { state: 'refused', kind: 'bad', answer: describeError(error) })
    throw error
  } finally {
    update()
  }
}

/** An entry as it is now, perhaps without what says little here. */
type View = (isShort: boolean) => { state: string; kind: string; parts: [title: string, text: string][] }

/** @returns shows the entry as it is then */
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
  // Scrolls the column only. A phone shows no column, and the page keeps its position.
  wire.scrollTop = wire.scrollHeight
}

const shorten = (text: string): string => text.replace(LONG, (long) => `${long.slice(0, 14)}…${long.slice(-6)}`)

/** Returns the explanation of a request; empty for requests that are unknown. */
const explainRequest = ({ method, url }: Exchange): string =>
  ABOUT.find(([request]) => request.test(`${method} ${url.pathname}`))?.[1] ?? ''

function describeState({ answer, failure, milliseconds = 0 }: Exchange): { state: string; kind: string } {
  if (failure !== undefined) return { state: 'no answer', kind: 'bad' }
  if (answer === undefined) return { state: '…', kind: 'odd' }
  const kind = answer.status < 400 ? 'good' : answer.status < 500 ? 'odd' : 'bad'
  return { state: `${answer.status} · ${Math.round(milliseconds)} ms`, kind }
}

/** Lists a request and its response in HTTP notation, with the `unseen` lines. The short form omits most headers. */
function listParts(exchange: Exchange, isShort: boolean, unseen: readonly string[]): [title: string, text: string][] {
  const { method, url, requestHeaders, requestBody, answer, failure } = exchange
  const line = `${method} ${url.pathname}${url.search} HTTP/1.1`
  const request = formatMessage([line, `host: ${url.host}`, ...requestHeaders.map(formatHeader)], requestBody)
  if (failure !== undefined) return Object.entries({ Request: request, Answer: `None: ${failure}` })
  if (answer === undefined) return Object.entries({ Request: request })
  const headers = answer.headers.filter(([name]) => !isShort || TELLING.test(name)).map(formatHeader)
  const status = `HTTP/1.1 ${answer.status} ${answer.statusText}`
  return Object.entries({ Request: request, Answer: formatMessage([status, ...headers, ...unseen], answer.body) })
}

const formatHeader = ([name, value]: readonly [string, string]): string => `${name}: ${value}`
const formatMessage = (lines: readonly string[], body: string): string =>
  [...lines, '', formatJson(body)].join('\n').trim()

function formatJson(body: string): string {
  if (body.length > MAX_SHOWN) return `${body.slice(0, MAX_SHOWN)}… (${body.length} characters)`
  try {
    return JSON.stringify(JSON.parse(body), undefined, 2)
  } catch {
    return body
  }
}
