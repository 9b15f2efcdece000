import { byId, make, makeButton } from './elements.js'
import type { Exchange, Signing, WireView } from './wire.js'

/** What each request is for, by method and path. The first that fits counts. */
const ABOUT: readonly [request: RegExp, about: string][] = [
  [/^POST \/request-signup$/, 'Ask for a challenge, and what the service asks of new users'],
  [/^POST \/request-auth$/, 'Ask for a challenge: a text that only this server can have made, for this DID'],
  [/^POST \/signup$/, 'Sign up with the signature, and receive tokens'],
  [/^POST \/auth$/, 'Exchange the signature for tokens'],
  [/^POST \/refresh-token$/, 'Exchange the refresh token for the next pair; the idempotency key makes a repeat safe'],
  [/^POST \/logout$/, 'End this session'],
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
  /^(?:cache-control|challenge-expires-in|content-type|etag|idempotent-replayed|pin-status|retry-after|www-authenticate)$/

/** `did%3Aethr…` as people read it. */
const readable = (path: string): string => {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

const shorten = (text: string): string => text.replace(LONG, (long) => `${long.slice(0, 14)}…${long.slice(-6)}`)

/** Shows what went over the wire, in the order in which it happened. */
export class ExchangeList implements WireView {
  readonly #list = byId('exchanges', HTMLOListElement)
  readonly #bar = byId('wire-bar', HTMLAnchorElement)
  readonly #clear = byId('clear', HTMLButtonElement)
  readonly #names: ReadonlyMap<string, string>
  #count = 0

  /** @param names - of the servers, by their origins */
  constructor(names: ReadonlyMap<string, string>) {
    this.#names = names
    this.#clear.addEventListener('click', () => {
      this.#list.replaceChildren()
      this.#setEmpty(true)
    })
  }

  /** Names what the user did; what it causes stands below. */
  begin(action: string): void {
    this.#add(make('li', { class: 'action' }, action))
  }

  showExchange(exchange: Exchange): () => void {
    const { method, url } = exchange
    const path = readable(url.pathname)
    const about = ABOUT.find(([request]) => request.test(`${method} ${url.pathname}`))?.[1] ?? ''
    const where = this.#names.get(url.origin) ?? url.host
    this.#count += 1
    return this.#addEntry({ method, path, about, where }, () => ({
      ...stateOf(exchange),
      parts: (isShort) => partsOf(exchange, isShort)
    }))
  }

  showSigning(signing: Signing): () => void {
    const about = 'In the wallet: the key signs this text. It proves the DID, and is good for one login'
    return this.#addEntry({ method: 'SIGN', path: 'personal_sign', about, where: 'wallet' }, () => ({
      state: signing.signature !== undefined ? 'signed' : signing.failure !== undefined ? 'refused' : '…',
      kind: signing.failure !== undefined ? 'bad' : 'good',
      parts: () => [
        ['Text', signing.text],
        ['Answer', signing.signature ?? signing.failure ?? '']
      ]
    }))
  }

  #addEntry({ method, path, about, where }: Entry, look: () => Look): () => void {
    const state = make('span', { class: 'state' })
    const parts = make('div', { class: 'parts' })
    const heading = [
      make('span', { class: 'method' }, method),
      make('span', { class: 'path' }, path),
      state,
      make('span', { class: 'about' }, make('span', { class: 'where' }, where), about)
    ]
    const details = make('details', { class: 'exchange' }, make('summary', {}, ...heading), parts)
    let isShort = true
    const update = (): void => {
      const now = look()
      state.textContent = now.state
      state.dataset.kind = now.kind
      if (details.open) parts.replaceChildren(...blocksOf(now.parts, isShort), toggle)
    }
    const toggle = makeButton('Show everything', 'Show everything', () => {
      isShort = !isShort
      toggle.ariaLabel = toggle.textContent = isShort ? 'Show everything' : 'Show less'
      update()
    })
    details.addEventListener('toggle', update)
    this.#add(make('li', {}, details))
    const showLatest = (): void => {
      update()
      this.#bar.textContent = `${this.#count} requests · ${method} ${path} ${look().state}`
    }
    showLatest()
    return showLatest
  }

  #add(item: HTMLLIElement): void {
    this.#setEmpty(false)
    this.#list.append(item)
    const wire = byId('wire', HTMLElement)
    // Only the column: on a phone it is no column, and the page stays where its reader is.
    wire.scrollTop = wire.scrollHeight
  }

  #setEmpty(isEmpty: boolean): void {
    byId('wire-empty', HTMLElement).hidden = !isEmpty
    this.#clear.hidden = isEmpty
    this.#bar.hidden = isEmpty
  }
}

/** What an entry says while it is closed. */
interface Entry {
  method: string
  path: string
  about: string
  where: string
}

interface Look {
  state: string
  kind: string
  /** @param isShort - without what says little here */
  parts: (isShort: boolean) => [title: string, text: string][]
}

function stateOf({ answer, failure, milliseconds = 0 }: Exchange): { state: string; kind: string } {
  if (failure !== undefined) return { state: 'no answer', kind: 'bad' }
  if (answer === undefined) return { state: '…', kind: 'odd' }
  const kind = answer.status < 400 ? 'good' : answer.status < 500 ? 'odd' : 'bad'
  return { state: `${answer.status} · ${Math.round(milliseconds)} ms`, kind }
}

function partsOf(exchange: Exchange, isShort: boolean): [title: string, text: string][] {
  const { method, url, requestHeaders, requestBody, answer, failure } = exchange
  const line = `${method} ${url.pathname}${url.search} HTTP/1.1`
  const request = message([line, `host: ${url.host}`, ...requestHeaders.map(headerLine)], requestBody)
  if (failure !== undefined) {
    return [
      ['Request', request],
      ['Answer', `None: ${failure}`]
    ]
  }
  if (answer === undefined) return [['Request', request]]
  const headers = answer.headers.filter(([name]) => !isShort || TELLING.test(name))
  const status = `HTTP/1.1 ${answer.status} ${answer.statusText}`
  return [
    ['Request', request],
    ['Answer', message([status, ...headers.map(headerLine)], answer.body)]
  ]
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

function blocksOf(parts: Look['parts'], isShort: boolean): Node[] {
  return parts(isShort).flatMap(([title, text]) => [
    make('h3', {}, title),
    make('pre', {}, isShort ? shorten(text) : text)
  ])
}
