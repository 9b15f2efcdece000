/** Stores encrypted notes in a vault, from two devices that do not overwrite each other's changes. */
import { Wallet } from 'ethers'
import { DidAuthClient } from 'express-did-auth-client'
import { DidAuthClientError, VaultClient } from 'express-did-auth-client/vault'

const url = process.env.VAULT_URL ?? 'http://localhost:3002'
const wallet = Wallet.createRandom()
/** Encryption key, which both devices need. Without it the notes are lost, so store it like a password. */
const key = crypto.getRandomValues(new Uint8Array(32))

async function openDevice(): Promise<VaultClient> {
  const auth = new DidAuthClient({ url, wallet })
  await auth.logIn()
  return new VaultClient({ auth, encrypt: { key } })
}

const [phone, laptop] = [await openDevice(), await openDevice()]
const { etag } = await phone.add('notes', 'Buy oak')
await laptop.add('notes', 'Call Bob')
try {
  await phone.replace('notes', 'Buy two oaks', { ifMatch: etag })
} catch (error) {
  if (!(error instanceof DidAuthClientError && error.code === 'CONFLICT')) throw error
  console.log(error.userMessage)
}
console.log('Notes:', (await phone.get('notes')).contents)

const did = `did:ethr:rsk:${wallet.address}`
const stranger = new VaultClient({ auth: new DidAuthClient({ url }) })
console.log('What everybody can read:', (await stranger.get('notes', did)).contents)
