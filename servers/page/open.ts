/** The page of a relay link: it opens the sent content with one tap. It needs no session, and stores nothing. */
import { RelayClient } from 'express-did-auth-client/relay'
import { onClick, onCopy } from './answer.js'
import { getElement, formatDate, openReads, relayUrl, show, formatSize, write } from './elements.js'
import { makeKey, createKeyWallet } from './key-wallet.js'

/** Login with a new key, unless the relay allows open reads. Any key works: everybody with the link may read. */
const login = openReads === 'true' ? {} : { wallet: createKeyWallet(makeKey()) }

function showExpiry(seconds: number): void {
  write('until', formatDate(seconds))
  write('until-title', seconds * 1_000 > Date.now() ? 'Available until' : 'Expired on')
  show('expiry', true)
}

function showContent(content: string | Uint8Array | File): void {
  const isText = typeof content === 'string'
  const file = content instanceof File ? content : new File([isText ? content : Uint8Array.from(content)], 'file')
  show('closed', false)
  show('opened-text', isText)
  show('opened-file', !isText)
  write('text', isText ? content : '')
  write('file-name', file.name)
  write('file-type', file.type || 'unknown')
  write('file-size', formatSize(file.size))
  const save = getElement('save', HTMLAnchorElement)
  // The neutral type makes browsers save the file under its name instead of showing it or changing the extension.
  save.href = URL.createObjectURL(new Blob([file], { type: 'application/octet-stream' }))
  save.download = file.name
  getElement(isText ? 'text' : 'save').focus()
}

function start(): void {
  const relay = new RelayClient({ url: relayUrl, ...login })
  write('relay', new URL(relayUrl).host)
  const until = Number(/&until=(\d{10,12})$/.exec(location.hash)?.[1])
  if (until > 0) showExpiry(until)
  onCopy('copy', () => getElement('text').textContent)
  onClick('open', async () => {
    showContent(await relay.open(location.href))
  })
  try {
    relay.link(location.href, location.href)
  } catch {
    show('offer', false)
    show('incomplete', true)
    document.title = write('title', 'This link is incomplete')
  }
}

// Opening another link in this tab changes only the fragment, so the page must reload.
window.addEventListener('hashchange', () => location.reload())
if (relayUrl !== '') start()
