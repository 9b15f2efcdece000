import { Wallet } from 'ethers'
import { RelayDevice } from './demo-relay-device.js'
import { seal, unseal } from './demo-seal.js'
import type { DemoServers } from './demo-servers.js'
import { say, step } from './demo-step.js'

const SECRET = 'The treasure lies under the old oak'

/** Sends a file from one user to another through the relay, which cannot read it. */
export async function showRelay({ relayUrl, contain }: DemoServers): Promise<void> {
  console.log(`\nA file relay at ${relayUrl}\n`)
  const ada = new RelayDevice(relayUrl, Wallet.createRandom())
  const bob = new RelayDevice(relayUrl, Wallet.createRandom())
  await step('Ada logs in: a credential contains the challenge', () => ada.logIn())

  const { sealed, key } = await seal(SECRET)
  const posted = await step('She encrypts a file and posts it', () => ada.post(sealed))
  const { url } = JSON.parse(posted.text) as { url: string }
  const shared = `${url}#${key}`
  say(`Ada shows Bob a QR code: ${shared}`)

  const [, cid = '', keyInUrl = ''] = /^relay:\/\/([^#]+)#(.+)$/.exec(shared) ?? []
  await step('Bob logs in with his own wallet', () => bob.logIn())
  await step('He fetches the file by its cid and decrypts it', async () => {
    const { status, text } = await bob.get(cid)
    const { file } = JSON.parse(text) as { file: string }
    return { status, text: await unseal(file, keyInUrl) }
  })

  const sent = ada.sent + bob.sent
  if (!contain(sealed) || !sent.includes(sealed)) throw new Error('the relay should have the encrypted file')
  if (contain(key) || sent.includes(key)) throw new Error('the relay should not have the key')
  if (contain(SECRET) || sent.includes(SECRET)) throw new Error('the relay should not have the text')
  say('requests, databases and logs contain the encrypted file, and neither the key nor the text')
  await step('He requests a CID that nobody has posted', () => bob.get(`bafkrei${'a'.repeat(52)}`), 404)
}
