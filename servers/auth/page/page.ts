import { DidAuthClient, local } from 'express-did-auth/client'
import { RelayClient } from 'express-did-auth/client/relay'
import { byId, make, show } from './elements.js'
import type { Exchange } from './exchange-text.js'
import { readLink, startRelayStep } from './relay-step.js'
import { pageClock, startSessionStep } from './session-step.js'
import { sentenceOf } from './step.js'
import { startVaultStep } from './vault-step.js'
import { startWalletStep, type PageWallet } from './wallet-step.js'
import { relayUrl, serviceUrl, shownFetch, usesCookies, vaultUrl } from './wire.js'

const shared = { mode: usesCookies ? 'cookie' : 'header', fetch: shownFetch(tellToken), storage: local() } as const

const auth = new DidAuthClient({
  ...shared,
  // Where the page came from, which differs from the server's own URL where somebody opens it by an address.
  url: new URL('.', location.href).href,
  domain: /^https?:/i.test(serviceUrl) && URL.canParse(serviceUrl) ? new URL(serviceUrl).host : serviceUrl,
  clock: pageClock,
  onSignedOut: (error) => {
    if (error.reason !== 'loggedOut') session.step.say(sentenceOf(error), 'bad')
  }
})

let relay: RelayClient | undefined
let chosen: PageWallet | undefined
const findWallets = startWalletStep(onWallet)
const session = startSessionStep(auth, () => chosen)
if (relayUrl !== '') startRelayStep(findRelay)
// With cookies, each of the two needs a host of its own, which a page cannot know.
const vaultAuth = vaultUrl === '' || usesCookies ? undefined : new DidAuthClient({ ...shared, url: vaultUrl })
const forgetNotes = vaultAuth && startVaultStep(vaultAuth, chosenWallet)

/** Access tokens are shown where they went over the wire: in an answer, or as a header. */
function tellToken({ url, requestHeaders, answer }: Exchange): void {
  if (url.origin !== location.origin) return
  const sent = requestHeaders.find(([name]) => name === 'authorization')?.[1].replace(/^DIDAuth /i, '')
  const [, received] = /"accessToken":"([^"]+)"/.exec(answer?.body ?? '') ?? []
  const token = received ?? sent
  if (token === undefined) return
  // The client has taken the token over by then.
  setTimeout(() => {
    session.showToken(token)
  })
}

/** One client for each wallet: it keeps the token of its login. */
function findRelay(): RelayClient {
  return (relay ??= new RelayClient({ url: relayUrl, wallet: chosenWallet().wallet, fetch: shared.fetch }))
}

function chosenWallet(): PageWallet {
  if (chosen === undefined) throw new Error('Choose a wallet first.')
  return chosen
}

/** Steps that need a wallet say so until there is one. */
function onWallet(wallet: PageWallet | undefined): void {
  chosen = wallet
  relay = undefined
  forgetNotes?.()
  const buttons = 'form button[type=submit], #log-in, #sign-up, #read-notes'
  for (const button of document.querySelectorAll<HTMLButtonElement>(buttons)) button.disabled = wallet === undefined
  for (const hint of document.querySelectorAll<HTMLElement>('.actions > .hint')) hint.hidden = wallet !== undefined
}

async function start(): Promise<void> {
  show('relay-missing', relayUrl === '')
  show('relay-here', relayUrl !== '')
  show('vault-missing', vaultUrl === '')
  show('vault-cookies', vaultUrl !== '' && usesCookies)
  show('vault-here', vaultAuth !== undefined)
  show('about-storage', !usesCookies)
  show('about-cookies', usesCookies)
  if (URL.canParse(serviceUrl) && new URL(serviceUrl).origin !== location.origin) {
    const link = make('a', { href: serviceUrl }, serviceUrl)
    byId('elsewhere').append('Open the page at ', link, ': at this address, relay and vault refuse it.')
    show('elsewhere', true)
  }
  const isLink = relayUrl !== '' && readLink(location.href)
  await findWallets()
  await auth.ready
  session.update()
  if (auth.session !== undefined) await session.listSessions()
  if (isLink) byId('open-link').scrollIntoView({ block: 'center' })
}

void start()
