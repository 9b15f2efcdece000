import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { join } from 'node:path'
import type { SqliteFile } from '../../servers/shared/content/database.js'
import { checkContents } from '../../servers/vault/repair/check-contents.js'
import { checkIntents } from '../../servers/vault/repair/check-intents.js'
import { checkNode } from '../../servers/vault/repair/check-node.js'
import { HandMadeNode } from '../support/hand-made-node.js'
import { temporaryFolder } from '../support/store-folder.js'
import { vaultInside, type VaultInside } from '../support/vault-parts.js'

const alice = 'did:ethr:rsk:0xa'
const bytes = Buffer.from('held')

const folder = { path: '', remove: (): void => undefined }
let node = new HandMadeNode()
let inside: VaultInside

beforeEach(() => {
  Object.assign(folder, temporaryFolder())
  node = new HandMadeNode()
  inside = vaultInside(join(folder.path, 'vault.db'), node)
})
afterEach(async () => {
  await inside.close()
  folder.remove()
})

/** Lets something happen between what a check reads and what it changes, as a server beside it would. */
function beforeChanges(happen: () => void): SqliteFile {
  const { database } = inside
  const transaction = database.transaction.bind<typeof database.transaction>(database)
  return Object.assign(database, {
    transaction: ((work: () => unknown) => {
      happen()
      return transaction(work)
    }) as typeof transaction
  })
}

describe('checkIntents', () => {
  it('unpins nothing that got an entry again meanwhile', async () => {
    const { id } = await inside.vault.add(alice, 'k', bytes)
    inside.index.remove(alice, 'k', inside.index.findOne(alice, 'k', id)!)
    const database = beforeChanges(() => {
      inside.index.add(alice, 'k', { id, byteCount: bytes.length })
    })
    checkIntents({ ...inside, database, isDryRun: false })
    expect(inside.intents.find(id)?.state).toBe('pinned')
  })

  it('pins nothing whose entry is gone meanwhile', async () => {
    const { id } = await inside.vault.add(alice, 'k', bytes)
    inside.database.exec('DELETE FROM vault_pins')
    const database = beforeChanges(() => {
      inside.index.remove(alice, 'k', inside.index.findOne(alice, 'k', id)!)
    })
    checkIntents({ ...inside, database, isDryRun: false })
    expect(inside.intents.find(id)).toBeUndefined()
  })
})

describe('checkNode', () => {
  it('does not take for lost what was unpinned before the node listed its pins, and pinned again after it', async () => {
    const { id } = await inside.vault.add(alice, 'k', bytes)
    const { listPins } = HandMadeNode.prototype
    node.listPins = async () => {
      await inside.vault.remove(alice, 'k')
      const pins = await listPins.call(node)
      await inside.vault.add(alice, 'k', bytes)
      return pins
    }
    expect(await checkNode({ ...inside, isDryRun: false })).toEqual({
      text: 'IPFS node: has all pins of this vault, no pins of others left alone',
      repairs: 0,
      faults: 0
    })
    expect(inside.intents.find(id)?.state).toBe('pinned')
  })

  it('counts no pin as one of others that came or went while the node listed its pins', async () => {
    const { listPins } = HandMadeNode.prototype
    await inside.vault.add(alice, 'goes', Buffer.from('goes'))
    node.listPins = async () => {
      await inside.vault.add(alice, 'comes', Buffer.from('comes'))
      const pins = await listPins.call(node)
      await inside.vault.remove(alice, 'goes')
      return pins
    }
    expect((await checkNode({ ...inside, isDryRun: false })).text).toBe(
      'IPFS node: has all pins of this vault, no pins of others left alone'
    )
  })
})

describe('checkContents', () => {
  it('asks a node that is away for no more than 8 of what is lost', async () => {
    for (let number = 0; number < 20; number += 1) await inside.vault.add(alice, 'k', Buffer.from(String(number)))
    inside.database.exec('DELETE FROM blocks')
    node.fault = () => 'ERR_NODE_AWAY'
    const calls = node.calls.length
    expect(await checkContents({ ...inside, isDryRun: false })).toMatchObject({ repairs: 0, faults: 20 })
    expect(node.calls).toHaveLength(calls + 8)
  })

  it('asks a node for each of what is lost where it is slow with one', async () => {
    for (let number = 0; number < 20; number += 1) await inside.vault.add(alice, 'k', Buffer.from(String(number)))
    inside.database.exec('DELETE FROM blocks')
    node.contents.clear()
    const calls = node.calls.length
    expect(await checkContents({ ...inside, isDryRun: false })).toMatchObject({ repairs: 0, faults: 20 })
    expect(node.calls).toHaveLength(calls + 20)
  })
})
