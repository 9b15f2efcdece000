import { byId, make, makeButton, show, write } from './elements.js'
import { aboutOf, partsOf, shorten, stateOf, type Exchange } from './exchange-text.js'

/** Where the servers are, as auth wrote it into the page. Relay and vault are empty where they do not run beside it. */
export const {
  auth: serviceUrl = '',
  relay: relayUrl = '',
  vault: vaultUrl = '',
  mode
} = document.documentElement.dataset
export const usesCookies = mode === 'cookie'

const SETS_COOKIES = /^\/(?:auth|siwe\/verify|signup|refresh-token|logout)$/
const COOKIES = 'set-cookie: authorization=…; refresh-token=… (HttpOnly: the browser shows them to no script)'
const SIGNING = 'In the wallet: the key signs this text. It proves the DID, and is good for one login'

const list = byId('exchanges', HTMLOListElement)
let count = 0

byId('clear').addEventListener('click', () => {
  list.replaceChildren()
  setEmpty(true)
})

/** Names what the user did; what it causes stands below. */
export function showAction(action: string): void {
  add(make('li', { class: 'action' }, action))
}

/**
 * `fetch` that shows each exchange. Showing changes no request and no answer.
 *
 * @param onAnswer - called with each exchange once its answer is there
 */
export function shownFetch(onAnswer: (exchange: Exchange) => void): typeof fetch {
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
  const server = [location.origin, relayUrl, vaultUrl].findIndex(
    (one) => one !== '' && new URL(one).origin === url.origin
  )
  const where = ['auth', 'relay', 'vault'][server] ?? url.host
  const unseen = usesCookies && where === 'auth' && SETS_COOKIES.test(url.pathname) ? [COOKIES] : []
  count += 1
  // `did%3Aethr…` as people read it.
  return addEntry([method, decodeURIComponent(url.pathname), aboutOf(exchange), where], (isShort) => ({
    ...stateOf(exchange),
    parts: partsOf(exchange, isShort, unseen)
  }))
}

/** Has a wallet sign, and shows it. It goes over no wire, and explains what follows. */
export async function shownSigning(text: string, sign: () => Promise<string>): Promise<string> {
  let [state, kind, answer] = ['…', 'good', '']
  const parts = (): Part[] => [
    ['Text', text],
    ['Answer', answer]
  ]
  const update = addEntry(['SIGN', 'personal_sign', SIGNING, 'wallet'], () => ({ state, kind, parts: parts() }))
  try {
    answer = await sign()
    state = 'signed'
    return answer
  } catch (error) {
    answer = error instanceof Error ? error.message : 'The wallet refused.'
    ;[state, kind] = ['refused', 'bad']
    throw error
  } finally {
    update()
  }
}

type Part = [title: string, text: string]
/** An entry as it is now, perhaps without what says little here. */
type View = (isShort: boolean) => { state: string; kind: string; parts: Part[] }

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
  const toggle = makeButton('Show everything', 'Show everything', () => {
    isShort = !isShort
    toggle.ariaLabel = toggle.textContent = isShort ? 'Show everything' : 'Show less'
    update()
  })
  const update = (): void => {
    const { state, kind, parts } = view(isShort)
    stateText.textContent = state
    stateText.dataset.kind = kind
    if (!details.open) return
    const blocks = parts.flatMap(([title, text]) => [
      make('h3', {}, title),
      make('pre', {}, isShort ? shorten(text) : text)
    ])
    body.replaceChildren(...blocks, toggle)
  }
  details.addEventListener('toggle', update)
  add(make('li', {}, details))
  const showLatest = (): void => {
    update()
    write('wire-bar', `${count} requests · ${method} ${path} ${view(isShort).state}`)
  }
  showLatest()
  return showLatest
}

function add(item: HTMLLIElement): void {
  setEmpty(false)
  list.append(item)
  const wire = byId('wire')
  // Only the column: on a phone it is no column, and the page stays where its reader is.
  wire.scrollTop = wire.scrollHeight
}

function setEmpty(isEmpty: boolean): void {
  show('wire-empty', isEmpty)
  show('clear', !isEmpty)
  show('wire-bar', !isEmpty)
}
