import { DidAuthClient, local, type Wallet } from 'express-did-auth/client'
import { RelayClient } from 'express-did-auth/client/relay'
import { byId, make, sentenceOf } from './elements.js'
import type { PageWallet } from './page-wallet.js'
import { RelayStep } from './relay-step.js'
import { PageClock, sayEnded, SessionStep } from './session-step.js'
import { VaultStep } from './vault-step.js'
import { WalletStep } from './wallet-step.js'
import { ExchangeList } from './wire-view.js'
import { watchedFetch, type Exchange } from './wire.js'

/** Where the servers are, as auth wrote it into the page. Relay and vault are empty where they do not run beside it. */
const {
  auth: serviceUrl = '',
  relay: relayUrl = '',
  vault: vaultUrl = '',
  mode = 'header'
} = document.documentElement.dataset
/** The server is asked where the page came from, which differs from its own URL where somebody opens it by an address. */
const authUrl = new URL('.', location.href).href
const names = new Map([
  [location.origin, 'auth'],
  ...[relayUrl, vaultUrl].flatMap((url, index) =>
    url === '' ? [] : [[new URL(url).origin, ['relay', 'vault'][index] ?? ''] as const]
  )
])

const exchanges = new ExchangeList(names, mode === 'cookie')
const seenFetch = watchedFetch(exchanges, tellToken)
const clock = new PageClock()
const shared = { mode: mode === 'cookie' ? 'cookie' : 'header', fetch: seenFetch, storage: local() } as const

const auth = new DidAuthClient({
  ...shared,
  url: authUrl,
  domain: hostOf(serviceUrl),
  clock,
  onSignedOut: (error) => {
    if (error.reason !== 'loggedOut') sayEnded(sentenceOf(error))
  }
})

const relays = new Map<Wallet, RelayClient>()
const walletStep = new WalletStep(exchanges, onWallet)
const sessionStep = new SessionStep({ auth, clock, exchanges, wallet: () => walletStep.wallet })
const relayStep = relayUrl === '' ? undefined : new RelayStep(findRelay, exchanges)
// With cookies, each of the two needs a host of its own, which a page cannot know.
const vaultAuth = vaultUrl === '' || mode === 'cookie' ? undefined : new DidAuthClient({ ...shared, url: vaultUrl })
const vaultStep = vaultAuth && new VaultStep({ auth: vaultAuth, exchanges, wallet: chosenWallet })

/** Access tokens are shown where they went over the wire: in an answer, or as a header. */
function tellToken({ url, requestHeaders, answer }: Exchange): void {
  if (url.origin !== location.origin) return
  const sent = requestHeaders.find(([name]) => name === 'authorization')?.[1].replace(/^DIDAuth /i, '')
  const [, received] = /"accessToken":"([^"]+)"/.exec(answer?.body ?? '') ?? []
  const token = received ?? sent
  // The client has taken the token over by then.
  if (token !== undefined)
    setTimeout(() => {
      sessionStep.showToken(token)
    })
}

/** One client for each wallet: it keeps the token of its login. */
function findRelay(): RelayClient {
  const { wallet } = chosenWallet()
  relays.set(wallet, relays.get(wallet) ?? new RelayClient({ url: relayUrl, wallet, fetch: seenFetch }))
  return relays.get(wallet) as RelayClient
}

function chosenWallet(): PageWallet {
  if (walletStep.wallet === undefined) throw new Error('Choose a wallet first.')
  return walletStep.wallet
}

/** Steps that need a wallet say so until there is one. */
function onWallet(wallet: PageWallet | undefined): void {
  vaultStep?.forget()
  for (const button of document.querySelectorAll<HTMLButtonElement>(
    'form button[type=submit], #log-in, #sign-up, #read-notes'
  )) {
    button.disabled = wallet === undefined
  }
  for (const hint of document.querySelectorAll<HTMLElement>('.actions > .hint')) hint.hidden = wallet !== undefined
}

function hostOf(url: string): string {
  return /^https?:/i.test(url) && URL.canParse(url) ? new URL(url).host : url
}

async function start(): Promise<void> {
  byId('relay-missing', HTMLElement).hidden = relayStep !== undefined
  byId('relay-here', HTMLElement).hidden = relayStep === undefined
  byId('vault-missing', HTMLElement).hidden = vaultUrl !== ''
  byId('about-storage', HTMLElement).hidden = mode === 'cookie'
  byId('about-cookies', HTMLElement).hidden = mode !== 'cookie'
  byId('vault-cookies', HTMLElement).hidden = vaultUrl === '' || mode !== 'cookie'
  byId('vault-here', HTMLElement).hidden = vaultStep === undefined
  if (URL.canParse(serviceUrl) && new URL(serviceUrl).origin !== location.origin) {
    const link = make('a', { href: serviceUrl }, serviceUrl)
    const elsewhere = byId('elsewhere', HTMLElement)
    elsewhere.append('Open the page at ', link, ': at this address, relay and vault refuse it.')
    elsewhere.hidden = false
  }
  const isLink = relayStep?.readLink(location.href) === true
  await walletStep.start()
  await auth.ready
  sessionStep.show()
  if (auth.session !== undefined) await sessionStep.listSessions()
  if (isLink) byId('open-link', HTMLElement).scrollIntoView({ block: 'center' })
}

void start()
