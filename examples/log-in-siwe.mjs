// Logs in by EIP-4361 (Sign-In with Ethereum) to a service with `siwe: true`: first with the client, then by hand.
import { Wallet } from 'ethers'
import { DidAuthClient } from 'express-did-auth-client'

const url = process.env.SERVICE_URL ?? 'http://localhost:3000'
const wallet = Wallet.createRandom()

const auth = new DidAuthClient({ url, wallet, message: 'siwe', statement: 'Welcome to the quick start.' })
await auth.logIn()
const profile = await auth.fetch('/profile')
console.log('by the client:', profile.status, await profile.json())
await auth.logOut()

// The same login without the client: get a nonce, build a text with the service's host, and sign it.
const nonce = await (await fetch(`${url}/siwe/nonce`)).text()
const message = `${new URL(url).host} wants you to sign in with your Ethereum account:
${wallet.address}

Welcome to the quick start.

URI: ${url}
Version: 1
Chain ID: 1
Nonce: ${nonce}
Issued At: ${new Date().toISOString()}`
const signature = await wallet.signMessage(message)
const verified = await fetch(`${url}/siwe/verify`, {
  method: 'POST',
  headers: { 'Content-Type': 'application/json' },
  body: JSON.stringify({ message, signature })
})
const { accessToken, did } = await verified.json()
const answer = await fetch(`${url}/profile`, { headers: { Authorization: `DIDAuth ${accessToken}` } })
console.log('by hand:', answer.status, did === (await answer.json()).did)
