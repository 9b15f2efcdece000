// Logs a new wallet in at the quick start, and calls its protected route.
import { Wallet } from 'ethers'
import { DidAuthClient } from 'express-did-auth/client'

const url = process.env.SERVICE_URL ?? 'http://localhost:3000'
const auth = new DidAuthClient({ url, wallet: Wallet.createRandom() })
await auth.logIn()
const profile = await auth.fetch('/profile')
console.log(profile.status, await profile.json())
await auth.logOut()
