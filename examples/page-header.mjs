// The script of page.html where tokens travel in headers: for an API on another site, where cookies do not reach.
// Every script of this page can read what local() keeps. With memory() none can, and a reload logs out.
import { DidAuthClient, local } from 'express-did-auth/client'

const at = (id) => document.getElementById(id)
const auth = new DidAuthClient({ url: location.origin, storage: local() })

const onClick = (id, action) => {
  at(id).onclick = async () => {
    at('problem').textContent = ''
    try {
      await action()
    } catch (error) {
      at('problem').textContent = error.userMessage ?? String(error)
      // The same call can succeed later, so the button offers it.
      if (error.retryable) at(id).textContent = 'Try again'
    }
  }
}

async function list() {
  const answer = await auth.fetch('/notes')
  at('notes').textContent = answer.ok ? (await answer.json()).join('\n') : ''
}

onClick('log-in', async () => {
  // Without a wallet given, it is window.ethereum.
  await auth.logIn()
  await list()
})
onClick('log-out', () => auth.logOut())
onClick('add', async () => {
  await auth.fetch('/notes', { method: 'POST', body: at('text').value })
  await list()
})

// Also called when another tab logs in, refreshes or logs out.
auth.subscribe((session) => {
  at('who').textContent = session ? `Logged in as ${session.did}` : 'Not logged in'
})
await auth.ready
at('who').textContent = auth.session ? `Logged in as ${auth.session.did}` : 'Not logged in'
