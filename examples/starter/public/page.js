import { DidAuthClient, findWallets } from 'express-did-auth-client'
import { local } from 'express-did-auth-client' // not --cookies

const auth = new DidAuthClient({
  mode: 'cookie', // --cookies
  storage: local(), // not --cookies
  url: '/api'
})
const at = (id) => document.getElementById(id)

/** Runs an action after a click, and shows its text or error. */
function onClick(button, action) {
  button.onclick = async () => {
    at('notice').textContent = await action().catch((error) => error.userMessage ?? error.message)
  }
}

function addLogin(text, getWallet) {
  const button = document.createElement('button')
  button.textContent = text
  onClick(button, async () => void (await auth.logIn({ wallet: await getWallet() })))
  at('logged-out').append(button)
}

/** Creates a key that exists only until this page is closed. It lets you try a login without a wallet. */
const createTemporaryKey = async () => (await import('ethers')).Wallet.createRandom()

/** Shows the state of the session, which other tabs can also change. */
function show() {
  at('state').textContent = auth.session ? `Logged in as ${auth.session.did}` : 'Not logged in'
  at('logged-in').hidden = !auth.session
  at('logged-out').hidden = Boolean(auth.session)
}

const wallets = await findWallets()
for (const { name, provider } of wallets) addLogin(`Log in with ${name}`, () => provider)
if (wallets.length === 0) addLogin('Try it with a temporary key', createTemporaryKey)
onClick(at('profile'), async () => (await auth.fetch('/profile')).text())
onClick(at('log-out'), () => auth.logOut())
auth.subscribe(show)
await auth.ready.catch((error) => (at('notice').textContent = error.message))
show()
