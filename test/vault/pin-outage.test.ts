import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { join } from 'node:path'
import { HandMadeNode } from '../support/hand-made-node.js'
import { settleDown, testOutbox, type TestOutbox } from '../support/pin-outbox.js'
import { temporaryFolder } from '../support/store-folder.js'

const folder = { path: '', remove: (): void => undefined }
let node = new HandMadeNode()
let one: TestOutbox
let lost = new Set<string>()

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'performance'] })
  Object.assign(folder, temporaryFolder())
  node = new HandMadeNode()
  lost = new Set()
  one = testOutbox(join(folder.path, 'vault.db'), node, (cid) => (lost.has(cid) ? undefined : Buffer.from(cid)))
})
afterEach(async () => {
  jest.useRealTimers()
  for (const call of node.held) call.fail('ERR_NODE_AWAY')
  await settleDown()
  await one.close()
  folder.remove()
})

function want(...cids: string[]): void {
  one.change((intents) => {
    for (const cid of cids) intents.want(cid)
  })
}

function unwant(cid: string): void {
  one.change((intents) => {
    intents.unwant(cid)
  })
}

/** Time passes, second by second or in longer steps, and all that happens in it. */
async function pass(seconds: number, step = 1): Promise<void> {
  for (let second = 0; second < seconds; second += step) {
    jest.advanceTimersByTime(step * 1_000)
    await settleDown()
  }
}

/** The process ends, and another one opens the file. */
async function restart(): Promise<void> {
  await one.close()
  one = testOutbox(join(folder.path, 'vault.db'), node)
}

const events = (): unknown[] => one.log.map(({ event }) => event)

describe('a node that is away', () => {
  it.each(['ERR_NODE_AWAY', 'ERR_NODE_SLOW'] as const)(
    'is asked by the first write only, and gets the rest when it is back: %s',
    async (code) => {
      node.fault = () => code
      want('a')
      expect(await one.outbox.settle(['a'])).toBe(false)
      for (let index = 0; index < 100; index += 1) {
        want(`b${index}`)
        expect(await one.outbox.settle([`b${index}`])).toBe(false)
      }
      expect(node.calls).toEqual(['add a'])
      expect(one.log).toEqual([expect.objectContaining({ level: 40, event: 'ipfs-node-away', reason: code })])
      node.fault = () => undefined
      await pass(1)
      await settleDown(500)
      expect(node.pins.size).toBe(101)
      expect(one.intents.countOpen()).toBe(0)
      expect(one.log).toHaveLength(2)
      expect(one.log[1]).toMatchObject({ event: 'ipfs-node-back', drained: 101 })
      want('c')
      expect(await one.outbox.settle(['c'])).toBe(true)
    }
  )

  it('is probed after 1, 2, 4, 8, 16, 32, 60 and 60 s, with one call each', async () => {
    node.fault = () => 'ERR_NODE_AWAY'
    want('a', 'b', 'c', 'd', 'e', 'f')
    await one.outbox.settle(['a'])
    await settleDown()
    const before = node.calls.length
    const probedAt: number[] = []
    for (let second = 1; second <= 190; second += 1) {
      const count = node.calls.length
      await pass(1)
      if (node.calls.length > count) probedAt.push(second)
      expect(node.calls.length - count).toBeLessThanOrEqual(1)
    }
    expect(probedAt).toEqual([1, 3, 7, 15, 31, 63, 123, 183])
    expect(node.calls.slice(before)).toEqual(Array(8).fill('ping'))
  })

  it('that answers probes and nothing else is left alone ever longer, and told of once', async () => {
    node.fault = (verb) => (verb === 'ping' ? undefined : 'ERR_NODE_AWAY')
    want(...Array.from({ length: 50 }, (_, index) => `c${index}`))
    one.outbox.start()
    await pass(600, 5)
    // About 15 probes, each followed by at most 4 calls.
    expect(node.calls.length).toBeLessThan(100)
    expect(events()).toEqual(['ipfs-node-away'])
  })

  it('holds nobody up who waits already', async () => {
    node.isHolding = true
    want('a', 'b')
    const answers = ['a', 'b'].map((cid) => one.outbox.settle([cid]))
    ;(await node.heldCall('add', 'a')).fail('ERR_NODE_AWAY')
    expect(await Promise.all(answers)).toEqual([false, false])
  })

  it('has pinned already what a write repeats', async () => {
    want('a')
    await one.outbox.settle(['a'])
    node.fault = () => 'ERR_NODE_AWAY'
    want('b')
    expect(await one.outbox.settle(['b'])).toBe(false)
    want('a')
    expect(await one.outbox.settle(['a'])).toBe(true)
  })
})

describe('a node that is slow', () => {
  it('is waited for 2 s, and finishes in the background', async () => {
    node.isHolding = true
    want('a')
    const answer = jest.fn()
    void one.outbox.settle(['a']).then(answer)
    const add = await node.heldCall('add', 'a')
    jest.advanceTimersByTime(1_999)
    await settleDown()
    expect(answer).not.toHaveBeenCalled()
    jest.advanceTimersByTime(1)
    await settleDown()
    expect(answer).toHaveBeenCalledWith(false)
    add.finish()
    await settleDown()
    expect(one.intents.find('a')?.state).toBe('pinned')
    expect(node.calls).toEqual(['add a'])
  })

  it('may carry out an add after all when nobody wants it any more: it is unpinned twice, a minute apart', async () => {
    one.outbox.start()
    node.isHolding = true
    want('a')
    void one.outbox.settle(['a'])
    ;(await node.heldCall('add', 'a')).fail('ERR_NODE_SLOW')
    await settleDown()
    unwant('a')
    node.isHolding = false
    await pass(1)
    expect(node.calls).toEqual(['add a', 'ping', 'unpin a'])
    node.pins.add('a')
    await pass(70)
    expect(node.calls).toEqual(['add a', 'ping', 'unpin a', 'unpin a'])
    expect([...node.pins]).toEqual([])
    expect(one.intents.find('a')).toBeUndefined()
  })

  it('may carry out an unpin after all when it is wanted again: it is added twice, a minute apart', async () => {
    one.outbox.start()
    want('a')
    await one.outbox.settle(['a'])
    node.isHolding = true
    unwant('a')
    void one.outbox.settle(['a'])
    ;(await node.heldCall('unpin', 'a')).fail('ERR_NODE_SLOW')
    await settleDown()
    want('a')
    node.isHolding = false
    await pass(1)
    node.pins.delete('a')
    await pass(70)
    expect(node.calls).toEqual(['add a', 'unpin a', 'ping', 'add a', 'add a'])
    expect([...node.pins]).toEqual(['a'])
    expect(one.intents.find('a')?.state).toBe('pinned')
  })
})

describe('an add of a process that was killed', () => {
  it('may be carried out after all when nobody wants it any more: it is unpinned twice, a minute apart', async () => {
    want('a')
    node.isHolding = true
    one.outbox.start()
    const add = await node.heldCall('add', 'a')
    unwant('a')
    add.finish()
    ;(await node.heldCall('unpin', 'a')).finish()
    await settleDown()
    node.isHolding = false
    node.pins.add('a')
    await pass(70)
    expect(node.calls).toEqual(['add a', 'unpin a', 'unpin a'])
    expect([...node.pins]).toEqual([])
    expect(one.intents.find('a')).toBeUndefined()
  })

  it('is over once it is repeated, and never was for what is wanted since', async () => {
    want('a')
    one.outbox.start()
    await settleDown()
    want('b')
    for (const cid of ['a', 'b']) {
      unwant(cid)
      expect(await one.outbox.settle([cid])).toBe(true)
    }
    await pass(70)
    expect(node.calls.filter((call) => call.startsWith('unpin'))).toEqual(['unpin a', 'unpin b'])
  })
})

describe('a failure of one cid', () => {
  it('lets others pass, and is tried again after 1, 2, 4 s and so on, at most an hour', async () => {
    node.fault = (_verb, cid) => (cid === 'lie' ? 'ERR_NODE_NONSENSE' : undefined)
    want('lie', 'a', 'b')
    expect(await one.outbox.settle(['lie', 'a'])).toBe(false)
    await settleDown()
    expect([...node.pins]).toEqual(['a', 'b'])
    expect(await one.outbox.settle(['lie'])).toBe(false)
    expect(node.calls.filter((call) => call === 'add lie')).toHaveLength(1)
    expect(one.log).toEqual([expect.objectContaining({ event: 'pin-failed', reason: 'ERR_NODE_NONSENSE' })])

    one.outbox.start()
    await pass(3_600, 10)
    const calls = node.calls.filter((call) => call === 'add lie').length
    expect(calls).toBeGreaterThanOrEqual(9)
    expect(calls).toBeLessThanOrEqual(12)
    const { attempts, retryAtSeconds } = one.intents.find('lie')!
    expect(attempts).toBe(calls)
    one.change((intents) => {
      for (let more = 0; more < 10; more += 1) intents.postpone(intents.find('lie')!, 0)
    })
    expect(retryAtSeconds - Math.floor(Date.now() / 1_000)).toBeLessThanOrEqual(3_600)
    await pass(10)
    expect(one.intents.find('lie')!.retryAtSeconds - Math.floor(Date.now() / 1_000)).toBeLessThanOrEqual(3_600)
    expect(one.intents.find('lie')!.retryAtSeconds - Math.floor(Date.now() / 1_000)).toBeGreaterThan(3_500)
  })

  it('is over with a change of mind', async () => {
    node.fault = (verb) => (verb === 'add' ? 'ERR_NODE_NONSENSE' : undefined)
    want('a')
    expect(await one.outbox.settle(['a'])).toBe(false)
    unwant('a')
    await one.outbox.settle(['a'])
    expect(node.calls).toEqual(['add a', 'unpin a'])
  })

  it('is content that is lost here: the node is not asked, the row waits', async () => {
    lost.add('a')
    want('a', 'b')
    expect(await one.outbox.settle(['a', 'b'])).toBe(false)
    expect(node.calls).toEqual(['add b'])
    expect(one.log).toEqual([expect.objectContaining({ event: 'pin-failed', reason: 'ERR_CONTENT_LOST' })])
    lost.clear()
    one.outbox.start()
    await pass(10)
    expect([...node.pins].sort()).toEqual(['a', 'b'])
  })
})

describe('a process that starts', () => {
  /** One that failed so often that it waits for almost an hour. */
  async function failOften(cid: string): Promise<void> {
    node.fault = () => 'ERR_NODE_NONSENSE'
    want(cid)
    await one.outbox.settle([cid])
    one.change((intents) => {
      const inAnHour = Math.floor(Date.now() / 1_000) + 3_599
      for (let more = 0; more < 11; more += 1) intents.postpone(intents.find(cid)!, inAnHour)
    })
    node.fault = () => undefined
  }

  it('tries at once what failed before and waits for its next try', async () => {
    await failOften('a')
    await restart()
    expect(node.calls).toEqual(['add a'])
    one.outbox.start()
    await settleDown()
    expect(node.calls).toEqual(['add a', 'add a'])
    expect(one.intents.find('a')?.state).toBe('pinned')
  })

  it('lets it wait as long as before when it fails again', async () => {
    await failOften('a')
    await restart()
    node.fault = () => 'ERR_NODE_NONSENSE'
    one.outbox.start()
    await pass(3_590, 10)
    expect(node.calls).toEqual(['add a', 'add a'])
    node.fault = () => undefined
    await pass(20)
    expect([...node.pins]).toEqual(['a'])
  })

  it('leaves the minute alone after which a doubtful call is made once more', async () => {
    node.fault = () => 'ERR_NODE_NONSENSE'
    want('a')
    await one.outbox.settle(['a'])
    node.fault = () => undefined
    unwant('a')
    await one.outbox.settle(['a'])
    expect(node.calls).toEqual(['add a', 'unpin a'])
    for (let time = 0; time < 5; time += 1) {
      await restart()
      one.outbox.start()
      await pass(10)
    }
    expect(node.calls).toEqual(['add a', 'unpin a'])
    node.pins.add('a')
    await pass(20)
    expect(node.calls).toEqual(['add a', 'unpin a', 'unpin a'])
    expect([...node.pins]).toEqual([])
    expect(one.intents.find('a')).toBeUndefined()
  })

  it('does no harm beside others that start: each calls once at most', async () => {
    await failOften('a')
    const others = [1, 2, 3].map(() => testOutbox(join(folder.path, 'vault.db'), node))
    for (const { outbox } of [one, ...others]) outbox.start()
    await settleDown()
    expect(node.calls.length).toBeLessThanOrEqual(1 + 4)
    expect([...node.pins]).toEqual(['a'])
    expect(one.intents.find('a')).toMatchObject({ state: 'pinned', attempts: 0, retryAtSeconds: 0 })
    for (const { close } of others) await close()
  })

  it('does not shorten the minute of doubt when it fails where another succeeded', async () => {
    node.fault = () => 'ERR_NODE_NONSENSE'
    want('a')
    await one.outbox.settle(['a'])
    node.fault = () => undefined
    unwant('a')
    node.isHolding = true
    one.outbox.start()
    const other = testOutbox(join(folder.path, 'vault.db'), node)
    other.outbox.start()
    const [well, ill] = [await node.heldCall('unpin', 'a'), await node.heldCall('unpin', 'a')]
    well.finish()
    await settleDown()
    ill.fail('ERR_NODE_NONSENSE')
    node.isHolding = false
    await pass(50)
    expect(node.calls).toEqual(['add a', 'unpin a', 'unpin a'])
    await other.close()
    node.pins.add('a')
    await pass(20)
    expect([...node.pins]).toEqual([])
  })
})

describe('a write of many contents', () => {
  it('is waited for when it is of 1,000', async () => {
    const cids = Array.from({ length: 1_000 }, (_, index) => `c${index}`)
    want(...cids)
    expect(await one.outbox.settle(cids)).toBe(true)
    expect(node.pins.size).toBe(1_000)
  })

  it('is left to the table when it is of more, or others wait already', async () => {
    const cids = Array.from({ length: 1_001 }, (_, index) => `c${index}`)
    want(...cids)
    const find = jest.spyOn(one.intents, 'find')
    expect(await one.outbox.settle(cids)).toBe(false)
    expect(find).not.toHaveBeenCalled()
    expect(node.calls).toEqual([])

    node.isHolding = true
    const first = one.outbox.settle(cids.slice(0, 600))
    const answer = jest.fn()
    void one.outbox.settle(cids.slice(600)).then(answer)
    await settleDown()
    expect(answer).toHaveBeenCalledWith(false)
    expect(node.calls).toEqual(['add c0', 'add c1', 'add c2', 'add c3'])
    const stopped = one.outbox.stop()
    for (const call of node.held) call.finish()
    await stopped
    expect(await first).toBe(false)
  })
})

describe('an outbox that has nothing to do', () => {
  it('asks the node nothing, in an hour', async () => {
    one.outbox.start()
    want('a')
    await one.outbox.settle(['a'])
    await pass(3_600, 10)
    expect(node.calls).toEqual(['add a'])
    expect(one.log).toEqual([])
  })

  it('finds within 10 s what another process left', async () => {
    one.outbox.start()
    await settleDown()
    want('a')
    await pass(10)
    expect([...node.pins]).toEqual(['a'])
  })
})

describe('a database that fails', () => {
  it('holds the outbox up for a while, fails no write and ends no process', async () => {
    want('a', 'b')
    one.database.exec('ALTER TABLE vault_pins RENAME TO elsewhere')
    expect(await one.outbox.settle(['a'])).toBe(false)
    expect(one.log).toEqual([expect.objectContaining({ event: 'pins-failed', code: 'SQLITE_ERROR' })])
    one.outbox.start()
    await pass(30)
    expect(node.calls.length).toBeLessThan(8)
    one.database.exec('ALTER TABLE elsewhere RENAME TO vault_pins')
    await pass(60)
    expect([...node.pins].sort()).toEqual(['a', 'b'])
    expect(events()).toEqual(['pins-failed', 'ipfs-node-back'])
  })
})

describe('stop', () => {
  it('waits for a call under way', async () => {
    node.isHolding = true
    want('a', 'b')
    void one.outbox.settle(['a'])
    const stopped = jest.fn()
    const add = await node.heldCall('add', 'a')
    void one.outbox.stop().then(stopped)
    await settleDown()
    expect(stopped).not.toHaveBeenCalled()
    add.finish()
    for (const call of node.held) call.finish()
    await settleDown()
    expect(stopped).toHaveBeenCalled()
    expect(one.intents.find('a')?.state).toBe('pinned')
  })

  it('waits 2 s and no more; the table keeps the rest, and the database may be closed', async () => {
    node.isHolding = true
    want('a')
    const answer = one.outbox.settle(['a'])
    const add = await node.heldCall('add', 'a')
    const stopped = one.outbox.stop()
    expect(await answer).toBe(false)
    jest.advanceTimersByTime(2_000)
    await stopped
    expect(one.intents.find('a')?.state).toBe('pin')
    one.database.close()
    const commit = jest.spyOn(one.intents, 'commit')
    const find = jest.spyOn(one.intents, 'find')
    add.finish()
    await settleDown()
    expect(commit).not.toHaveBeenCalled()
    expect(find).not.toHaveBeenCalled()
    expect(one.log).toEqual([])
    one = testOutbox(join(folder.path, 'vault.db'), node)
    node.isHolding = false
    one.outbox.start()
    await settleDown()
    expect(one.intents.find('a')?.state).toBe('pinned')
  })

  it('takes nothing new on', async () => {
    await one.outbox.stop()
    want('a')
    expect(await one.outbox.settle(['a'])).toBe(false)
    expect(node.calls).toEqual([])
  })
})
