import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { join } from 'node:path'
import { HandMadeNode } from '../support/hand-made-node.js'
import { settleDown, testOutbox, type TestOutbox } from '../support/pin-outbox.js'
import { temporaryFolder } from '../support/store-folder.js'

const folder = { path: '', remove: (): void => undefined }
let node = new HandMadeNode()
let opened: TestOutbox[] = []

/** One more process on the same file. */
function open(): TestOutbox {
  const one = testOutbox(join(folder.path, 'vault.db'), node)
  opened.push(one)
  return one
}

beforeEach(() => {
  Object.assign(folder, temporaryFolder())
  node = new HandMadeNode()
})
afterEach(async () => {
  for (const call of node.held) call.fail('ERR_NODE_AWAY')
  for (const one of opened) await one.close()
  opened = []
  folder.remove()
})

describe('the pin outbox', () => {
  it('pins what is wanted and unpins what is not, each before its write is answered', async () => {
    const { outbox, intents, change } = open()
    change(() => {
      intents.want('a')
      intents.want('b')
    })
    expect(await outbox.settle(['a', 'b'])).toBe(true)
    expect([...node.pins]).toEqual(['a', 'b'])
    expect(intents.find('a')?.state).toBe('pinned')
    change(() => {
      intents.unwant('a')
    })
    expect(await outbox.settle(['a'])).toBe(true)
    expect([...node.pins]).toEqual(['b'])
    expect(intents.find('a')).toBeUndefined()
  })

  it('asks the node nothing for what it has pinned already', async () => {
    const { outbox, intents, change } = open()
    for (let time = 0; time < 3; time += 1) {
      change(() => {
        intents.want('a')
      })
      expect(await outbox.settle(['a'])).toBe(true)
    }
    expect(node.calls).toEqual(['add a'])
  })

  it('leaves alone what this vault never wanted', async () => {
    node.pins.add('of another')
    const { outbox, intents, change } = open()
    change(() => {
      intents.unwant('of another')
    })
    expect(await outbox.settle(['of another'])).toBe(true)
    expect(node.calls).toEqual([])
    expect([...node.pins]).toEqual(['of another'])
  })

  it('does nothing for a transaction that did not happen', async () => {
    const { outbox, intents, change } = open()
    expect(() => {
      change(() => {
        intents.want('a')
        throw new Error('no room')
      })
    }).toThrow('no room')
    expect(await outbox.settle(['a'])).toBe(true)
    expect(node.calls).toEqual([])
  })

  it('follows a change of mind while an add hangs: the unpin comes after it', async () => {
    const { outbox, intents, change } = open()
    node.isHolding = true
    change(() => {
      intents.want('a')
    })
    const first = outbox.settle(['a'])
    const add = await node.heldCall('add', 'a')
    change(() => {
      intents.unwant('a')
    })
    const second = outbox.settle(['a'])
    await settleDown()
    expect(node.calls).toEqual(['add a'])
    add.finish()
    ;(await node.heldCall('unpin', 'a')).finish()
    expect(await Promise.all([first, second])).toEqual([true, true])
    expect([...node.pins]).toEqual([])
    expect(intents.find('a')).toBeUndefined()
  })

  it('adds again what was unwanted and wanted again while the add hung', async () => {
    const { outbox, intents, change } = open()
    node.isHolding = true
    change(() => {
      intents.want('a')
    })
    const settled = outbox.settle(['a'])
    const add = await node.heldCall('add', 'a')
    change(() => {
      intents.unwant('a')
      intents.want('a')
    })
    add.finish()
    ;(await node.heldCall('add', 'a')).finish()
    expect(await settled).toBe(true)
    expect([...node.pins]).toEqual(['a'])
    expect(intents.find('a')?.state).toBe('pinned')
  })

  it('ends as wanted after any change of mind while an unpin hangs', async () => {
    const { outbox, intents, change } = open()
    change(() => {
      intents.want('a')
    })
    await outbox.settle(['a'])
    node.isHolding = true
    change(() => {
      intents.unwant('a')
    })
    const settled = outbox.settle(['a'])
    const unpin = await node.heldCall('unpin', 'a')
    change(() => {
      intents.want('a')
    })
    unpin.finish()
    ;(await node.heldCall('add', 'a')).finish()
    expect(await settled).toBe(true)
    expect([...node.pins]).toEqual(['a'])
  })

  it('never has two calls for one cid, and at most 4 for all', async () => {
    const { outbox, intents, change } = open()
    const cids = Array.from({ length: 50 }, (_, index) => `c${index}`)
    const answers: Promise<boolean>[] = []
    for (let round = 0; round < 20; round += 1) {
      change(() => {
        for (const cid of cids) {
          if (round % 2 === 0) intents.want(cid)
          else intents.unwant(cid)
        }
      })
      answers.push(outbox.settle(cids))
      await settleDown(round % 5)
    }
    await Promise.all(answers)
    await outbox.drain(5_000)
    expect(node.mostAtOnce).toBe(4)
    expect(node.overlaps).toEqual([])
    expect([...node.pins]).toEqual([])
    expect(intents.countOpen()).toBe(0)
  })

  it('drains 1,000 that wait from before, the oldest first, with one call each', async () => {
    const before = open()
    const cids = Array.from({ length: 1_000 }, (_, index) => `c${index}`)
    before.change(() => {
      for (const cid of cids) before.intents.want(cid)
    })
    await before.close()
    opened = []
    const { outbox, intents } = open()
    outbox.start()
    await outbox.drain(10_000)
    expect(node.calls).toEqual(cids.map((cid) => `add ${cid}`))
    expect(intents.countOpen()).toBe(0)
  })
})

describe('two pin outboxes on one file', () => {
  it('unpin what one pinned after the other let go of it', async () => {
    const server = open()
    const operator = open()
    node.isHolding = true
    server.change(({ want }) => {
      want.call(server.intents, 'a')
    })
    const settled = server.outbox.settle(['a'])
    const add = await node.heldCall('add', 'a')
    operator.change(() => {
      operator.intents.unwant('a')
    })
    const taken = operator.outbox.settle(['a'])
    ;(await node.heldCall('unpin', 'a')).finish()
    expect(await taken).toBe(true)
    expect(operator.intents.find('a')).toBeUndefined()
    add.finish()
    ;(await node.heldCall('unpin', 'a')).finish()
    expect(await settled).toBe(true)
    expect([...node.pins]).toEqual([])
    expect(server.intents.find('a')).toBeUndefined()
  })

  it('pin again what one unpinned after the other pinned it', async () => {
    const server = open()
    const operator = open()
    server.change(() => {
      server.intents.want('a')
    })
    await server.outbox.settle(['a'])
    node.isHolding = true
    server.change(() => {
      server.intents.unwant('a')
    })
    const settled = server.outbox.settle(['a'])
    const unpin = await node.heldCall('unpin', 'a')
    operator.change(() => {
      operator.intents.want('a')
    })
    const wanted = operator.outbox.settle(['a'])
    ;(await node.heldCall('add', 'a')).finish()
    expect(await wanted).toBe(true)
    unpin.finish()
    ;(await node.heldCall('add', 'a')).finish()
    expect(await settled).toBe(true)
    expect([...node.pins]).toEqual(['a'])
    expect(server.intents.find('a')?.state).toBe('pinned')
  })

  it('are not misled by a cid that goes and comes back between two looks', async () => {
    const server = open()
    const operator = open()
    node.isHolding = true
    server.change(() => {
      server.intents.want('a')
    })
    const settled = server.outbox.settle(['a'])
    const late = await node.heldCall('add', 'a')
    operator.change(() => {
      operator.intents.unwant('a')
    })
    void operator.outbox.settle(['a'])
    ;(await node.heldCall('unpin', 'a')).finish()
    await settleDown()
    operator.change(() => {
      operator.intents.want('a')
    })
    late.finish()
    ;(await node.heldCall('add', 'a')).finish()
    expect(await settled).toBe(true)
    expect([...node.pins]).toEqual(['a'])
    expect(server.intents.find('a')?.state).toBe('pinned')
  })

  it('end as wanted after 40 changes of mind from both sides', async () => {
    const [server, operator] = [open(), open()]
    const cids = ['a', 'b', 'c', 'd', 'e']
    for (let turn = 0; turn < 40; turn += 1) {
      const { outbox, intents, change } = turn % 3 === 0 ? operator : server
      const cid = cids[(turn * 7) % 5]!
      change(() => {
        if (turn % 2 === 0) intents.want(cid)
        else intents.unwant(cid)
      })
      void outbox.settle([cid])
      await settleDown(turn % 4)
    }
    await Promise.all([server.outbox.drain(5_000), operator.outbox.drain(5_000)])
    expect(server.intents.countOpen()).toBe(0)
    expect([...node.pins].sort()).toEqual(cids.filter((cid) => server.intents.find(cid)?.state === 'pinned'))
  })
})
