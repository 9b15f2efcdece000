// The script of page.html: tokens in cookies, which no script can read. Recommended for pages.
import { DidAuthClient, findWallets } from 'express-did-auth/client'

const at = (id) => document.getElementById(id)
const auth = new DidAuthClient({ url: location.origin, mode: 'cookie', onSignedOut: tell })

function tell(error) {
  at('problem').textContent = error.userMessage ?? String(error)
}

function show() {
  at('who').textContent = auth.session ? `Logged in as ${auth.session.did}` : 'Not logged in'
}

/** What a button does, with its errors told to the user. */
const onClick = (id, action) => {
  at(id).onclick = () => {
    at('problem').textContent = ''
    return action().catch(tell)
  }
}

async function list() {
  const answer = await auth.fetch('/notes')
  at('notes').textContent = answer.ok ? (await answer.json()).join('\n') : ''
}

onClick('log-in', async () => {
  const [wallet] = await findWallets({ ms: 300 })
  await auth.logIn({ wallet: wallet?.provider })
  await list()
})
onClick('log-out', async () => {
  await auth.logOut()
  at('notes').textContent = ''
})
onClick('add', async () => {
  await auth.fetch('/notes', { method: 'POST', body: at('text').value })
  await list()
})

auth.subscribe(show)
await auth.ready.catch(tell)
show()
if (auth.session) await list()
