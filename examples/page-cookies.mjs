// The script of page.html: tokens in cookies, which no script can read. Recommended for pages.
import { DidAuthClient, findWallets } from 'express-did-auth-client'

const NO_WALLET = "This browser has no wallet. Install one, such as MetaMask, or open the page in your wallet's app."
const at = (id) => document.getElementById(id)
const onSignedOut = (error) => error.reason !== 'loggedOut' && tell('log-in', error)
const auth = new DidAuthClient({ url: location.origin, mode: 'cookie', onSignedOut })

/** Shows an error below the element that caused it. */
function tell(id, error) {
  at(`${id}-problem`).textContent = error.code === 'NO_WALLET' ? NO_WALLET : (error.userMessage ?? error.message)
}

async function run(id, action) {
  if (at(id).ariaBusy === 'true') return
  at(id).ariaBusy = 'true'
  at(`${id}-problem`).textContent = ''
  await action().catch((error) => tell(id, error))
  at(id).ariaBusy = null
}

async function ask(method, body) {
  const answer = await auth.fetch('/notes', { method, body })
  if (!answer.ok) throw new Error(`The service answered ${answer.status}. Try again later.`)
  return answer
}

async function list() {
  at('notes').textContent = (await (await ask('GET')).json()).join('\n')
}

/** Shows the state of the session, which other tabs can also change. */
function show() {
  const did = auth.session?.did ?? ''
  at('logged-in').hidden = did === ''
  at('logged-out').hidden = did !== ''
  if (did === at('who').textContent) return
  at('who').textContent = did
  at('notes').textContent = ''
  if (did !== '') run('notes', list)
}

at('log-in').onclick = () =>
  run('log-in', async () => {
    const [wallet] = await findWallets({ ms: 300 })
    await auth.logIn({ wallet: wallet?.provider })
  })
at('log-out').onclick = () => run('log-out', () => auth.logOut())
at('add').onsubmit = (event) => {
  event.preventDefault()
  return run('add', async () => {
    await ask('POST', at('text').value)
    at('text').value = ''
    await list()
  })
}

auth.subscribe(show)
await auth.ready.catch((error) => tell('log-in', error)).finally(show)
