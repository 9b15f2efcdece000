import { makeButton, sentenceOf } from './answer.js'
import { byId, make, relayUrl, usesCookies, vaultUrl, write } from './elements.js'
import { aboutOf, partsOf, shorten, stateOf, type Exchange } from './exchange-text.js'

const SERVERS = Object.entries({ auth: location.origin, relay: relayUrl, vault: vaultUrl })
const SETS_COOKIES = /^\/(?:auth|siwe\/verify|signup|refresh-token|logout)$/
const COOKIES = 'set-cookie: authorization=…; refresh-token=… (HttpOnly: the browser shows them to no script)'
const SIGNING = 'The wallet signs this text, which proves the DID, and is good for one login'

const list = byId('exchanges', HTMLOListElement)
/** The button that the user pressed last, until a request follows. */
let action = ''

byId('clear').addEventListener('click', () => list.replaceChildren())

// What the user did is named above what it causes. The return key in a form presses its button as well.
document.addEventListener(
  'click',
  ({ target }) => {
    const button = target instanceof Element ? target.closest('button') : null
    if (button?.ariaBusy !== 'true') action = button?.ariaLabel ?? button?.textContent ?? ''
  },
  true
)

/** `fetch` that shows each exchange, and hands it on once its answer is there. It changes no request and no answer. */
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
  const [where = url.host] = SERVERS.find(([, base]) => base !== '' && url.href.startsWith(base)) ?? []
  const unseen = usesCookies && where === 'auth' && SETS_COOKIES.test(url.pathname) ? [COOKIES] : []
  // `did%3Aethr…` as people read it.
  return addEntry([method, decodeURIComponent(url.pathname), aboutOf(exchange), where], (isShort) => ({
    ...stateOf(exchange),
    parts: partsOf(exchange, isShort, unseen)
  }))
}

/** Has a wallet sign, and shows it. It goes over no wire, and explains what follows. */
export async function shownSigning(text: string, sign: () => Promise<string>): Promise<string> {
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
    Object.assign(shown, { state: 'refused', kind: 'bad', answer: sentenceOf(error) })
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
    const textOf = isShort ? shorten : String
    const blocks = parts.flatMap(([title, text]) => [make('h3', {}, title), make('pre', {}, textOf(text))])
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
  const wire = byId('wire')
  // Only the column: on a phone it is no column, and the page stays where its reader is.
  wire.scrollTop = wire.scrollHeight
}
