import { byId, make, makeButton } from './elements.js'
import { aboutOf, partsOf, readable, shorten, stateOf } from './exchange-text.js'
import type { Exchange, Signing, WireView } from './wire.js'

const SETS_COOKIES = /^\/(?:auth|signup|refresh-token|logout)$/
const COOKIES = 'set-cookie: authorization=…; refresh-token=… (HttpOnly: the browser shows them to no script)'

/** Shows what went over the wire, in the order in which it happened. */
export class ExchangeList implements WireView {
  readonly #list = byId('exchanges', HTMLOListElement)
  readonly #bar = byId('wire-bar', HTMLAnchorElement)
  readonly #clear = byId('clear', HTMLButtonElement)
  readonly #names: ReadonlyMap<string, string>
  readonly #usesCookies: boolean
  #count = 0

  /**
   * @param names - of the servers, by their origins
   * @param usesCookies - which a script does not see, so that a line says it
   */
  constructor(names: ReadonlyMap<string, string>, usesCookies: boolean) {
    this.#names = names
    this.#usesCookies = usesCookies
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
    const where = this.#names.get(url.origin) ?? url.host
    const setsCookies = this.#usesCookies && where === 'auth' && SETS_COOKIES.test(url.pathname)
    const path = readable(url.pathname)
    const about = aboutOf(exchange)
    this.#count += 1
    return this.#addEntry({ method, path, about, where }, () => ({
      ...stateOf(exchange),
      parts: (isShort) => partsOf(exchange, isShort, setsCookies ? [COOKIES] : [])
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

function blocksOf(parts: Look['parts'], isShort: boolean): Node[] {
  return parts(isShort).flatMap(([title, text]) => [
    make('h3', {}, title),
    make('pre', {}, isShort ? shorten(text) : text)
  ])
}
