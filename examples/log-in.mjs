// Logs a new wallet in at the quick start, and calls its protected route.
import { Wallet } from 'ethers'

const url = process.env.SERVICE_URL ?? 'http://localhost:3000'
const wallet = Wallet.createRandom()
const did = `did:ethr:rsk:${wallet.address}`
const { challenge } = await (await fetch(`${url}/request-auth/${did}`)).json()
const sig = await wallet.signMessage(`Login to ${new URL(url).host}\nVerification code: ${challenge}`)
const headers = { 'Content-Type': 'application/json' }
const login = await fetch(`${url}/auth`, { method: 'POST', headers, body: JSON.stringify({ did, sig }) })
const { accessToken } = await login.json()
const profile = await fetch(`${url}/profile`, { headers: { Authorization: `DIDAuth ${accessToken}` } })
console.log(profile.status, await profile.json())
