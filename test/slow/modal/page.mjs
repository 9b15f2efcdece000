// The page of an app with RainbowKit, as the documentation of RainbowKit and of this package describes it.
import '@rainbow-me/rainbowkit/styles.css'
import {
  ConnectButton,
  createAuthenticationAdapter,
  RainbowKitAuthenticationProvider,
  RainbowKitProvider
} from '@rainbow-me/rainbowkit'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { DidAuthClient } from 'express-did-auth-client'
import { rainbowKit } from 'express-did-auth-client/siwe'
import { createElement, useEffect, useSyncExternalStore, useState } from 'react'
import { createRoot } from 'react-dom/client'
import { createConfig, http, WagmiProvider } from 'wagmi'
import { rootstock } from 'wagmi/chains'

const auth = new DidAuthClient({ url: location.origin, mode: 'cookie' })
const adapter = createAuthenticationAdapter(rainbowKit(auth))
const config = createConfig({ chains: [rootstock], transports: { [rootstock.id]: http() } })
const queryClient = new QueryClient()

function App() {
  const session = useSyncExternalStore(
    (listener) => auth.subscribe(listener),
    () => auth.session
  )
  const [isReady, setReady] = useState(false)
  useEffect(() => void auth.ready.finally(() => setReady(true)), [])
  const [me, setMe] = useState('')
  const askMe = async () => setMe(await (await auth.fetch('/me')).text())
  return createElement(
    RainbowKitAuthenticationProvider,
    { adapter, status: !isReady ? 'loading' : session ? 'authenticated' : 'unauthenticated' },
    createElement(
      RainbowKitProvider,
      null,
      createElement(ConnectButton),
      createElement('p', { id: 'who' }, session?.did ?? 'nobody'),
      createElement('button', { id: 'ask', onClick: askMe }, 'Who am I?'),
      createElement('p', { id: 'me' }, me)
    )
  )
}

createRoot(document.getElementById('root')).render(
  createElement(
    WagmiProvider,
    { config },
    createElement(QueryClientProvider, { client: queryClient }, createElement(App))
  )
)
