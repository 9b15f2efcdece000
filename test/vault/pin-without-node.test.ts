import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { join } from 'node:path'
import { HandMadeNode } from '../support/hand-made-node.js'
import { temporaryFolder } from '../support/store-folder.js'
import { vaultInside, type VaultInside } from '../support/vault-parts.js'

const alice = 'did:ethr:rsk:0xa'
const bytes = Buffer.from('held')

const folder = { path: '', remove: (): void => undefined }
let node = new HandMadeNode()
let inside: VaultInside

/** The vault started anew. */
async function restart(withNode: boolean): Promise<void> {
  await inside.close()
  open(withNode)
}

function open(withNode: boolean): void {
  inside = vaultInside(join(folder.path, 'vault.db'), withNode ? node : undefined)
}

beforeEach(() => {
  Object.assign(folder, temporaryFolder())
  node = new HandMadeNode()
})
afterEach(async () => {
  await inside.close()
  folder.remove()
})

describe('a vault without its IPFS node for a time', () => {
  it('leaves the pin of what was deleted and written again meanwhile', async () => {
    open(true)
    const { id } = await inside.vault.add(alice, 'k', bytes)
    await restart(false)
    await inside.vault.remove(alice, 'k')
    expect(inside.intents.find(id)?.state).toBe('unpin')
    expect(await inside.vault.add(alice, 'k', bytes)).toEqual({ id, isPinned: true })
    await restart(true)
    inside.outbox?.start()
    await inside.outbox?.drain(2_000)
    expect([...node.pins]).toEqual([id])
    expect(inside.intents.find(id)?.state).toBe('pinned')
  })

  it('takes off the pin of what was deleted meanwhile', async () => {
    open(true)
    await inside.vault.add(alice, 'k', bytes)
    await restart(false)
    await inside.vault.remove(alice, 'k')
    await restart(true)
    inside.outbox?.start()
    await inside.outbox?.drain(2_000)
    expect([...node.pins]).toEqual([])
  })

  it('wants nothing of a node that never was', async () => {
    open(false)
    const { id } = await inside.vault.add(alice, 'k', bytes)
    expect(inside.intents.find(id)).toBeUndefined()
  })
})
