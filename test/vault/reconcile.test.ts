import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { join } from 'node:path'
import { contentOf } from '../../servers/shared/content/content-blocks.js'
import { reconcile } from '../../servers/vault/repair/reconcile.js'
import { HandMadeNode } from '../support/hand-made-node.js'
import { temporaryFolder } from '../support/store-folder.js'
import { dumpOf, faultsInside, vaultInside, type VaultInside } from '../support/vault-parts.js'

const [alice, bob] = ['did:ethr:rsk:0xa', 'did:ethr:rsk:0xb']
const large = Buffer.alloc(600_000, 'large')

const folder = { path: '', remove: (): void => undefined }
let node = new HandMadeNode()
let inside: VaultInside

const open = (withNode = true): VaultInside => vaultInside(join(folder.path, 'vault.db'), withNode ? node : undefined)

beforeEach(() => {
  Object.assign(folder, temporaryFolder())
  node = new HandMadeNode()
  inside = open()
})
afterEach(async () => {
  await inside.close()
  folder.remove()
})

async function fill(): Promise<Record<'one' | 'two' | 'three' | 'large', string>> {
  const add = async (did: string, key: string, bytes: Buffer) => (await inside.vault.add(did, key, bytes)).id
  return {
    one: await add(alice, 'k', Buffer.from('one')),
    two: await add(alice, 'k', Buffer.from('two')),
    three: await add(bob, 'k', Buffer.from('three')),
    large: await add(bob, 'k', large)
  }
}

async function run(isDryRun = false): Promise<{ isInOrder: boolean; lines: string[] }> {
  const lines: string[] = []
  const isInOrder = await reconcile({ ...inside, isDryRun }, (line) => lines.push(line))
  return { isInOrder, lines }
}

const whole = [
  'content: 4 contents in entries, all undamaged',
  'blocks: all used and counted right',
  'counters: right for all users',
  'pins: wanted for all content and nothing else',
  'IPFS node: has all pins of this vault, no pins of others left alone',
  'outbox: nothing pending'
]

/** The report with some lines changed. */
const reportWith = (changes: Record<number, string>): string[] => whole.map((line, index) => changes[index] ?? line)

/** A run that finds something: with --dry-run it says so and changes nothing, else it repairs, and then finds no more. */
async function expectRepair(wouldBe: Record<number, string>, done: Record<number, string>): Promise<void> {
  const before = { here: dumpOf(inside.database), there: [...node.pins] }
  expect(await run(true)).toEqual({ isInOrder: false, lines: reportWith(wouldBe) })
  expect({ here: dumpOf(inside.database), there: [...node.pins] }).toEqual(before)
  expect(await run()).toEqual({ isInOrder: true, lines: reportWith(done) })
  expect(faultsInside(inside)).toEqual([])
  expect(await run()).toEqual({ isInOrder: true, lines: whole })
  expect(await run(true)).toEqual({ isInOrder: true, lines: whole })
}

describe('reconcile', () => {
  it('finds nothing wrong in a vault that is well, and asks the node for its pins only', async () => {
    await fill()
    const calls = node.calls.length
    expect(await run()).toEqual({ isInOrder: true, lines: whole })
    expect(await run(true)).toEqual({ isInOrder: true, lines: whole })
    expect(node.calls.slice(calls)).toEqual(['ping', 'ping'])
  })

  it('finds nothing wrong in an empty vault', async () => {
    expect(await run()).toEqual({
      isInOrder: true,
      lines: reportWith({ 0: 'content: no contents in entries, all undamaged' })
    })
  })

  it.each([
    // What comes back has more uses than it can lose, until the next check counts them.
    ['lost', 'DELETE FROM blocks WHERE cid = ?', 'blocks: no unused blocks removed, 1 wrong use count corrected'],
    ['damaged', "UPDATE blocks SET bytes = x'00' WHERE cid = ?", 'blocks: all used and counted right']
  ])('fetches content that is %s here from the node', async (_what, sql, blocks) => {
    const { one } = await fill()
    inside.database.prepare(sql).run(one)
    await expectRepair(
      { 0: 'content: 4 contents in entries, 1 to put back from the IPFS node' },
      { 0: 'content: 4 contents in entries, 1 put back from the IPFS node', 1: blocks }
    )
    expect(Buffer.from(inside.contents.read(one)!).toString()).toBe('one')
  })

  it('fetches content of which one leaf is lost', async () => {
    await fill()
    const [leaf] = contentOf(large).blocks
    inside.database.prepare('DELETE FROM blocks WHERE cid = ?').run(leaf!.cid)
    expect((await run()).lines[0]).toBe('content: 4 contents in entries, 1 put back from the IPFS node')
    expect(faultsInside(inside)).toEqual([])
  })

  it('says what is lost here and on the node, and leaves its blocks alone', async () => {
    const { one, large: root } = await fill()
    inside.database.prepare('DELETE FROM blocks WHERE cid IN (?, ?)').run(one, root)
    node.contents.clear()
    for (const isDryRun of [true, false]) {
      expect(await run(isDryRun)).toEqual({
        isInOrder: false,
        lines: reportWith({
          0: `content: 4 contents in entries, 2 lost: ${[one, root].sort().join(' ')}`,
          1: 'blocks: all used and counted right, counts that are too high are not looked for while content is lost'
        })
      })
    }
    expect(inside.database.prepare('SELECT count(*) FROM blocks').pluck().get()).toBe(2 + 3)
    expect(inside.index.find(bob, 'k').map(({ id }) => id)).toContain(root)
  })

  it('believes no node that has other bytes', async () => {
    const { one } = await fill()
    inside.database.prepare('DELETE FROM blocks WHERE cid = ?').run(one)
    node.contents.set(one, Buffer.from('oNe'))
    expect((await run()).lines[0]).toBe(`content: 4 contents in entries, 1 lost: ${one}`)
  })

  it('removes blocks that nobody uses and corrects use counts', async () => {
    const { one, two } = await fill()
    const leaf = contentOf(large).blocks[0]!.cid
    inside.contents.add(contentOf(Buffer.from('of a write that was never finished')))
    inside.database.prepare('UPDATE blocks SET uses = 3 WHERE cid = ?').run(one)
    inside.database.prepare('UPDATE blocks SET uses = 0 WHERE cid = ?').run(two)
    inside.database.prepare('UPDATE blocks SET uses = 9 WHERE cid = ?').run(leaf)
    await expectRepair(
      { 1: 'blocks: 1 unused block to remove, 3 wrong use counts to correct' },
      { 1: 'blocks: 1 unused block removed, 3 wrong use counts corrected' }
    )
  })

  it('counts what users have anew', async () => {
    await fill()
    inside.database.prepare('UPDATE owners SET byte_count = byte_count + 7 WHERE did = ?').run(alice)
    await expectRepair({ 2: 'counters: to correct for 1 user' }, { 2: 'counters: corrected for 1 user' })
    inside.database.prepare('UPDATE owners SET entry_count = 0').run()
    await expectRepair({ 2: 'counters: to correct for 2 users' }, { 2: 'counters: corrected for 2 users' })
    expect(inside.index.usage(alice)).toEqual({ byteCount: 6, entryCount: 2 })
  })

  it('pins what was written while no node was configured', async () => {
    await inside.close()
    inside = open(false)
    await fill()
    const withoutNode = [...whole.slice(0, 3), 'IPFS node: none, IPFS_API_URL is not given', 'outbox: nothing pending']
    expect(await run()).toEqual({ isInOrder: true, lines: withoutNode })
    await inside.close()
    inside = open()
    await expectRepair(
      { 3: 'pins: 4 contents to pin, no contents to unpin' },
      {
        3: 'pins: 4 contents to pin, no contents to unpin',
        4: 'IPFS node: has all that was pinned before, 4 contents still to pin, no pins of others left alone'
      }
    )
    expect(node.pins.size).toBe(4)
  })

  it('unpins what no entry has, and leaves alone what others pinned', async () => {
    const { one } = await fill()
    inside.database.prepare('DELETE FROM entries WHERE cid = ?').run(one)
    inside.database.prepare('UPDATE owners SET byte_count = 3, entry_count = 1 WHERE did = ?').run(alice)
    inside.contents.remove(one)
    node.pins.add('of another')
    const { isInOrder, lines } = await run()
    expect(isInOrder).toBe(true)
    expect(lines[3]).toBe('pins: no contents to pin, 1 content to unpin')
    expect(lines[4]).toBe('IPFS node: has all pins of this vault, 1 pin of others left alone')
    expect(node.pins.has(one)).toBe(false)
    expect(node.pins.has('of another')).toBe(true)
  })

  it('pins again what the node has lost', async () => {
    const { two } = await fill()
    node.pins.delete(two)
    await expectRepair(
      { 4: 'IPFS node: 1 pin lost, to pin again, no pins of others left alone' },
      { 4: 'IPFS node: 1 pin lost, to pin again, no pins of others left alone' }
    )
    expect(node.pins.has(two)).toBe(true)
  })

  it('does not take for lost what is pinned or unpinned while the node lists its pins', async () => {
    const { two } = await fill()
    const { listPins } = HandMadeNode.prototype
    node.listPins = async () => {
      await inside.vault.remove(alice, 'k', two)
      const pins = await listPins.call(node)
      await inside.vault.remove(bob, 'k')
      await inside.vault.add(alice, 'late', Buffer.from('late'))
      return pins
    }
    const { lines } = await run()
    expect(lines[4]).toBe('IPFS node: has all pins of this vault, no pins of others left alone')
  })

  it('drains the outbox, and says what waits while the node is away', async () => {
    await fill()
    node.fault = () => 'ERR_NODE_AWAY'
    await inside.vault.add(alice, 'k', Buffer.from('five'))
    const expected = reportWith({
      0: 'content: 5 contents in entries, all undamaged',
      4: 'IPFS node: its pins cannot be listed: IPFS node unavailable, try again',
      5: 'outbox: 1 pin pending'
    })
    expect(await run()).toEqual({ isInOrder: false, lines: expected })
    node.fault = () => undefined
    await inside.close()
    inside = open()
    inside.database.prepare('UPDATE vault_pins SET retry_at_seconds = 0').run()
    expect((await run()).isInOrder).toBe(true)
    expect(node.pins.size).toBe(5)
  })

  it('tries at once what failed and waits for its next try; with --dry-run it only says so', async () => {
    node.fault = (verb) => (verb === 'add' ? 'ERR_NODE_NONSENSE' : undefined)
    await fill()
    inside.database.prepare('UPDATE vault_pins SET retry_at_seconds = unixepoch() + 3600').run()
    node.fault = () => undefined
    const before = dumpOf(inside.database)
    const found = {
      4: 'IPFS node: has all that was pinned before, 4 contents still to pin, no pins of others left alone'
    }
    expect(await run(true)).toEqual({ isInOrder: false, lines: reportWith({ ...found, 5: 'outbox: 4 pins pending' }) })
    expect([dumpOf(inside.database), node.pins.size]).toEqual([before, 0])
    expect(await run()).toEqual({ isInOrder: true, lines: reportWith(found) })
    expect(node.pins.size).toBe(4)
    expect(await run()).toEqual({ isInOrder: true, lines: whole })
  })

  it('says what is lost and what is still to pin, and tries once what fails again', async () => {
    const { one, two } = await fill()
    node.pins.delete(two)
    node.fault = (verb) => (verb === 'add' ? 'ERR_NODE_NONSENSE' : undefined)
    inside.database.prepare("UPDATE vault_pins SET state = 'pin' WHERE cid = ?").run(one)
    node.pins.delete(one)
    const calls = node.calls.length
    const expected = reportWith({
      4: 'IPFS node: 1 pin lost, to pin again, 1 content still to pin, no pins of others left alone',
      5: 'outbox: 2 pins pending'
    })
    expect(await run()).toEqual({ isInOrder: false, lines: expected })
    expect(node.calls.slice(calls)).toEqual(['ping', `add ${one}`, `add ${two}`])
  })

  it('does not cut short the minute after which a doubtful pin is made once more', async () => {
    const { one } = await fill()
    inside.database.prepare("UPDATE vault_pins SET state = 'pin', is_doubtful = 1 WHERE cid = ?").run(one)
    for (const calls of [['ping', `add ${one}`], ['ping']]) {
      const before = node.calls.length
      expect(await run()).toEqual({ isInOrder: false, lines: reportWith({ 5: 'outbox: 1 pin pending' }) })
      expect(node.calls.slice(before)).toEqual(calls)
    }
  })

  it('leaves to the server what it wants while the outbox drains', async () => {
    await fill()
    node.fault = (verb, cid) => {
      if (verb === 'add' && cid !== later) {
        inside.intents.want(later)
        return undefined
      }
      return cid === later ? 'ERR_NODE_NONSENSE' : undefined
    }
    const later = contentOf(Buffer.from('later')).cid
    const { cid } = contentOf(Buffer.from('one'))
    node.pins.delete(cid)
    const { isInOrder, lines } = await run()
    expect(inside.intents.isOpen(later)).toBe(true)
    expect({ isInOrder, last: lines[5] }).toEqual({ isInOrder: true, last: 'outbox: nothing pending' })
  })

  it('repairs beside a server that writes all the time, and spoils nothing', async () => {
    await fill()
    const server = open()
    let isOver = false
    const writer = (async () => {
      for (let turn = 0; !isOver; turn += 1) {
        const key = `k${turn % 7}`
        const bytes = Buffer.concat([large.subarray(0, 300_000), Buffer.from(String(turn % 11))])
        if (turn % 3 === 2) await server.vault.remove(bob, key)
        else await server.vault.add(bob, key, turn % 2 === 0 ? bytes : Buffer.from(String(turn)))
        await new Promise(setImmediate)
      }
    })()
    for (let round = 0; round < 20; round += 1) {
      inside.contents.add(contentOf(Buffer.from(`never finished ${round}`)))
      inside.database.prepare('UPDATE owners SET byte_count = byte_count + 1').run()
      inside.database.prepare('UPDATE blocks SET uses = uses + 2 WHERE rowid % 3 = 0').run()
      const { lines } = await run()
      expect(lines[1]).toMatch(/^blocks: 1 unused block removed, /)
      await new Promise(setImmediate)
    }
    isOver = true
    await writer
    await server.close()
    expect((await run()).isInOrder).toBe(true)
    expect(faultsInside(inside)).toEqual([])
    expect([...node.pins].sort()).toEqual(
      inside.database.prepare('SELECT DISTINCT cid FROM entries ORDER BY cid').pluck().all()
    )
  })
})
