// Logs in to the quick start with a new wallet, and calls its protected route.
import { Wallet } from 'ethers'
import { DidAuthClient } from 'express-did-auth-client'

const url = process.env.SERVICE_URL ?? 'http://localhost:3000'
const auth = new DidAuthClient({ url, wallet: Wallet.createRandom() })
await auth.logIn()
const profile = await auth.fetch('/profile')
console.log(profile.status, await profile.json())
await auth.logOut()
