import { DidAuthClient, local } from 'express-did-auth-client'
import { RelayClient } from 'express-did-auth-client/relay'
import { changeUser, showAnswer, describeError, onCopy } from './answer.js'
import { allow, getElement, make, relayUrl, serviceUrl, show, usesCookies, vaultUrl } from './elements.js'
import { startRelayStep } from './relay-step.js'
import { pageClock, startSessionStep } from './session-step.js'
import { startVaultStep } from './vault-step.js'
import { startWalletStep, type PageWallet } from './wallet-step.js'
import { fetchAndShow } from './wire.js'

const fetch = fetchAndShow((exchange) => showToken(exchange))
const isUrl = /^https?:/i.test(serviceUrl) && URL.canParse(serviceUrl)
const auth = new DidAuthClient({
  mode: usesCookies ? 'cookie' : 'header',
  fetch,
  storage: local(),
  // The URL of this page. It differs from the server's own URL if a user opens the page by an IP address.
  url: new URL('.', location.href).href,
  ...(isUrl ? { domain: new URL(serviceUrl).host, serviceUrl } : { domain: serviceUrl }),
  // The server refuses proofs that name another origin.
  deviceKey: isUrl && new URL(serviceUrl).origin === location.origin && isSecureContext,
  clock: pageClock,
  onSignedOut: (error) => {
    if (error.reason !== 'loggedOut') describeSession(error)
  }
})

let chosen: PageWallet | undefined
const findWallets = startWalletStep(onWallet)
const showToken = startSessionStep(auth, () => chosen)
// One signature logs in at all three servers, because relay and vault accept resource tokens of this server.
if (relayUrl !== '') startRelayStep(new RelayClient({ auth, resource: relayUrl, fetch }))
const vault = { auth, resource: vaultUrl, fetch }
const forgetNotes =
  vaultUrl === '' ? undefined : startVaultStep(vault, () => chosen?.isPasskey === true && isSessionWallet(chosen))
let shownDid: string | undefined
auth.subscribe(onSession)

function describeSession(error: unknown): void {
  showAnswer(getElement('session-status'), describeError(error), 'error')
}

function isSessionWallet({ address }: PageWallet): boolean {
  return auth.session?.did.endsWith(address.toLowerCase()) === true
}

/** Applies the user's choice of a wallet. @param isNew - false if a reload has restored it */
function onWallet(wallet: PageWallet | undefined, isNew: boolean): void {
  chosen = wallet
  allow('wallet', wallet !== undefined)
  if (wallet === undefined) return
  getElement('session-step', HTMLDetailsElement).open = true
  if (isNew) getElement('log-in').focus()
  if (isNew && auth.session !== undefined && !isSessionWallet(wallet)) auth.logOut().catch(describeSession)
}

/** Shows the session. A change of user clears the results, the link and the notes of the previous user. */
function onSession(): void {
  const did = auth.session?.did
  allow('session', did !== undefined)
  if (shownDid === did) return
  if (shownDid !== undefined) changeUser()
  for (const status of document.querySelectorAll<HTMLElement>('.step + .step [role=status]')) showAnswer(status, '')
  show('sent', false)
  forgetNotes?.(shownDid)
  shownDid = did
  if (did === undefined) return
  // On a phone, a tap opens the last two steps.
  const opened = matchMedia('(max-width: 40rem)').matches ? '#session-step' : '.step'
  for (const step of document.querySelectorAll(opened)) step.toggleAttribute('open', true)
}

/** Values in the code samples "The same in your app", and the values of these servers. Empty ones replace nothing. */
const values = Object.entries({
  'https://auth.example.com': serviceUrl,
  'https://relay.example.com': relayUrl,
  'https://vault.example.com': vaultUrl,
  "'header'": usesCookies ? "'cookie'" : ''
})
// Each sample gets a frame that scrolls by keyboard, and a button that copies it, with its status.
for (const code of document.querySelectorAll('.sample code')) {
  for (const [text, value] of values) code.textContent = code.textContent.replace(text, value || text)
  const plainFrame = code.parentElement
  const button = make('button', { type: 'button', class: 'quiet', 'aria-label': 'Copy the code' }, 'Copy')
  onCopy(button, () => code.textContent)
  const frame = make('pre', { tabindex: '0', role: 'group', 'aria-label': 'Code' }, code)
  plainFrame?.replaceWith(button, frame, make('p', { class: 'status', role: 'status' }))
}

void findWallets()
