import { Wallet } from 'ethers'
import { Device } from './demo-device.js'
import type { DemoServers } from './demo-servers.js'
import { say, step } from './demo-step.js'

/** Stores, lists, replaces and deletes entries, also while the IPFS node is switched off. */
export async function showVault({ vaultUrl, switchNodeOff }: DemoServers): Promise<void> {
  console.log(`\nA data vault at ${vaultUrl}\n`)
  const ada = new Device(vaultUrl, Wallet.createRandom())
  const anybody = new Device(vaultUrl, Wallet.createRandom())
  const notes = `/${ada.did}/notes`

  await step('A stranger may not write', () => anybody.send('POST', '/notes', { content: 'Salt' }), 401)
  await step('Ada logs in', () => ada.logIn())
  const kept = await step('She keeps a note', () => ada.send('POST', '/notes', { content: 'Milk' }), 201)
  await step('And another', () => ada.send('POST', '/notes', { content: 'Bread' }), 201)
  await step('Anybody may read: she would encrypt what no one should', () => anybody.send('GET', notes))
  await step('The same note again adds nothing', () => ada.send('POST', '/notes', { content: 'Milk' }), 201)
  const { id } = JSON.parse(kept.text) as { id: string }
  await step('She replaces the first note', () => ada.send('PUT', `/notes/${id}`, { content: 'Oat milk' }))
  await step('Her keys, each with its entries', () => ada.send('GET', '/keys'))

  await switchNodeOff()
  say('the IPFS node is switched off')
  await step('Reads go on', () => anybody.send('GET', notes))
  await step('So do writes: the pin follows when the node is back', () =>
    ada.send('PUT', '/shopping', { content: 'Tea' })
  )
  await step('She deletes all notes', () => ada.send('DELETE', '/notes'))
  await step('Nothing is left of them', () => anybody.send('GET', notes))
  await step('What she uses', () => ada.send('GET', '/storage'))
}
