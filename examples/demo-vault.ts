import { Wallet } from 'ethers'
import { Device } from './demo-device.js'
import type { DemoServers } from './demo-servers.js'
import { say, step } from './demo-step.js'

/** Stores, lists, replaces and deletes entries, also while the IPFS node is off. */
export async function showVault({ vaultUrl, switchNodeOff }: DemoServers): Promise<void> {
  console.log(`\nA data vault at ${vaultUrl}\n`)
  const ada = new Device(vaultUrl, Wallet.createRandom())
  const anybody = new Device(vaultUrl, Wallet.createRandom())
  const notes = `/${ada.did}/notes`

  await step('A stranger may not write', () => anybody.send('POST', '/notes', { content: 'Salt' }), 401)
  await step('Ada logs in', () => ada.logIn())
  const added = await step('She adds a note', () => ada.send('POST', '/notes', { content: 'Milk' }), 201)
  await step('She adds another note', () => ada.send('POST', '/notes', { content: 'Bread' }), 201)
  await step('Anybody can read them: a real client encrypts private notes', () => anybody.send('GET', notes))
  await step('Adding the same note again changes nothing', () => ada.send('POST', '/notes', { content: 'Milk' }), 201)
  const { id } = JSON.parse(added.text) as { id: string }
  await step('She replaces the first note', () => ada.send('PUT', `/notes/${id}`, { content: 'Oat milk' }))
  await step('She lists her keys with their entries', () => ada.send('GET', '/keys'))

  await switchNodeOff()
  say('the IPFS node is switched off')
  await step('Reads still work', () => anybody.send('GET', notes))
  await step('Writes still work: content is pinned once the node is back', () =>
    ada.send('PUT', '/shopping', { content: 'Tea' })
  )
  await step('She deletes all notes', () => ada.send('DELETE', '/notes'))
  await step('The notes are gone', () => anybody.send('GET', notes))
  await step('She checks her used storage', () => ada.send('GET', '/storage'))
}
