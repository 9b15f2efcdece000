import './page.css'
import { DidAuthClient, findWallets } from 'express-did-auth-client'
import { local } from 'express-did-auth-client' // not --cookies
import { useState, useSyncExternalStore } from 'react'
import { createRoot } from 'react-dom/client'

const auth = new DidAuthClient({
  mode: 'cookie', // --cookies
  storage: local(), // not --cookies
  url: '/api'
})
const listen = auth.subscribe.bind(auth)
const readProfile = async () => (await auth.fetch('/profile')).text()
const logOut = () => auth.logOut()
/** Logs in with a key that exists only until this page is closed. It lets you try a login without a wallet. */
const tryTemporaryKey = async () => auth.logIn({ wallet: (await import('ethers')).Wallet.createRandom() })
const wallets = await findWallets()

type Action = () => Promise<unknown> // --typescript

function Page() {
  const session = useSyncExternalStore(listen, () => auth.session)
  const [notice, setNotice] = useState('')
  const show = (result: unknown) => setNotice(typeof result === 'string' ? result : '') // --typescript
  const run = (action: Action) => action().then(show, (error) => show(error.userMessage ?? error.message)) // --typescript
  const show = (result) => setNotice(typeof result === 'string' ? result : '') // not --typescript
  const run = (action) => action().then(show, (error) => show(error.userMessage ?? error.message)) // not --typescript
  return (
    <>
      <h1>Log in with a wallet</h1>
      <p>{session ? `Logged in as ${session.did}` : 'Not logged in'}</p>
      {!session &&
        wallets.map(({ id, name, provider }) => (
          <button key={id} onClick={() => run(() => auth.logIn({ wallet: provider }))}>
            Log in with {name}
          </button>
        ))}
      {!session && wallets.length === 0 && (
        <button onClick={() => run(tryTemporaryKey)}>Try it with a temporary key</button>
      )}
      {session && <button onClick={() => run(readProfile)}>My profile</button>}
      {session && <button onClick={() => run(logOut)}>Log out</button>}
      <p role="status">{notice}</p>
    </>
  )
}

await auth.ready.catch(console.error)
const main = document.querySelector('main')
if (main) createRoot(main).render(<Page />)
