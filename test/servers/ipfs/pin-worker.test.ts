import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { pino } from 'pino'
import { PinWorker } from '../../../servers/ipfs/pin-worker.js'
import { captureLog } from '../../support/fixtures/captured-log.js'
import {
  computeCid,
  did,
  createEntry,
  sqliteFolder,
  type SqliteFolder,
  type TestStore
} from '../../support/servers/content-stores.js'
import { HandMadeNode } from '../../support/faults/hand-made-node.js'
import { until } from '../../support/fixtures/until.js'

const [a, b] = [computeCid('a'), computeCid('b')]

let files: SqliteFolder
let node: HandMadeNode
let store: TestStore
let captured = captureLog()
let workers: PinWorker[] = []

const startWorker = (other: TestStore = store): PinWorker => {
  const clock = { nowSeconds: () => files.clocks.seconds }
  const worker = new PinWorker({ ledger: other, store: other, node, log: pino({}, captured.destination), clock })
  workers.push(worker)
  return worker
}

beforeEach(async () => {
  jest.useFakeTimers({ doNotFake: ['setImmediate', 'nextTick', 'queueMicrotask', 'Date'] })
  files = sqliteFolder()
  node = new HandMadeNode()
  captured = captureLog()
  store = await files.open({ tracksPins: true })
})
afterEach(async () => {
  jest.useRealTimers()
  node.isHolding = false
  for (const call of node.held) call.fail('ERR_IPFS_UNAVAILABLE')
  for (const worker of workers) await worker.stop()
  workers = []
  await files.remove()
})

const add = (text: string, from = store) => from.writeEntry(createEntry('k', text))
const remove = (text: string, from = store) => from.removeEntries({ did, key: 'k', cid: computeCid(text) })

describe('PinWorker', () => {
  it('pins written content and unpins removed content before settle resolves', async () => {
    const worker = startWorker()
    const { changedPins } = await add('a')
    expect(await worker.settle(changedPins)).toBe(true)
    await add('b')
    expect(await worker.settle([b])).toBe(true)
    expect([...node.pins]).toEqual([a, b])
    expect(await worker.settle((await remove('a')).changedPins)).toBe(true)
    expect([...node.pins]).toEqual([b])
    expect(await store.countOpen()).toBe(0)
  })

  it('makes no call for content that is pinned already or was never pinned', async () => {
    const worker = startWorker()
    node.pins.add('of another')
    await add('a')
    await worker.settle([a])
    expect(await worker.settle((await add('a')).changedPins)).toBe(true)
    expect(await worker.settle(['of another'])).toBe(true)
    expect(node.calls).toEqual([`add ${a}`])
    expect([...node.pins]).toEqual(['of another', a])
  })

  it.each([
    ['is removed', ['remove'], []],
    ['is removed and written again', ['remove', 'add'], [a]]
  ] as const)(
    'waits for a call in flight when its content %s, and then updates the node',
    async (_what, steps, pins) => {
      const worker = startWorker()
      node.isHolding = true
      await add('a')
      const first = worker.settle([a])
      const call = await node.heldCall('add', a)
      for (const step of steps) await (step === 'remove' ? remove('a') : add('a'))
      const second = worker.settle([a])
      await new Promise(setImmediate)
      expect(node.calls).toEqual([`add ${a}`])
      node.isHolding = false
      call.finish()
      expect(await Promise.all([first, second])).toEqual([true, true])
      expect([...node.pins]).toEqual(pins)
      expect(node.overlaps).toEqual([])
    }
  )

  it('makes at most 4 calls at once, and never two for one CID', async () => {
    const worker = startWorker()
    const texts = Array.from({ length: 30 }, (_, index) => `c${index}`)
    node.isHolding = true
    await Promise.all(texts.map((text) => add(text)))
    const answers = [worker.settle(texts.map(computeCid))]
    await until(() => node.held.length === 4)
    node.isHolding = false
    for (const call of node.held.splice(0)) call.finish()
    for (let round = 1; round < 6; round += 1) {
      await Promise.all(texts.map((text) => (round % 2 === 0 ? add(text) : remove(text))))
      answers.push(worker.settle(texts.map(computeCid)))
    }
    await Promise.all(answers)
    worker.start()
    await until(async () => (await store.countOpen()) === 0)
    expect(node.mostAtOnce).toBeLessThanOrEqual(4)
    expect(node.overlaps).toEqual([])
    expect([...node.pins]).toEqual([])
  })

  it('finishes the calls that a previous process left open, with one call each', async () => {
    const texts = Array.from({ length: 200 }, (_, index) => `c${index}`)
    await Promise.all(texts.map((text) => add(text)))
    startWorker().start()
    await until(async () => (await store.countOpen()) === 0)
    expect(node.calls.sort()).toEqual(texts.map((text) => `add ${computeCid(text)}`).sort())
  })

  it('repeats a call of a crashed worker after its lease, and again after a minute of doubt', async () => {
    node.isHolding = true
    await add('a')
    void startWorker().settle([a])
    await node.heldCall('add', a)
    const otherWorker = startWorker(await files.open({ tracksPins: true }))
    node.isHolding = false
    expect(await otherWorker.settle([a])).toBe(false)
    files.clocks.advance(20)
    expect(await otherWorker.settle([a])).toBe(false)
    expect(node.calls).toEqual([`add ${a}`, `add ${a}`])
    files.clocks.advance(60)
    expect(await otherWorker.settle([a])).toBe(true)
    expect(node.calls).toHaveLength(3)
  })

  it.each([
    [2, 'an outage', 'ipfs-unavailable', false],
    [3, 'a fault of only that pin', 'pin-failed', true]
  ])('treats a timeout after %d failures of the same pin as %s', async (failures, _what, event, isSettled) => {
    await add('a')
    for (let attempt = 0; attempt < failures; attempt += 1) {
      const nowSeconds = files.clocks.seconds
      const [task] = await store.claim({ limit: 1, nowSeconds, leaseSeconds: 20 })
      await store.postpone(task!, nowSeconds, true)
    }
    await add('b')
    node.fault = (_verb, cid) => (cid === a ? 'ERR_IPFS_TIMEOUT' : undefined)
    const worker = startWorker()
    expect(await worker.settle([a])).toBe(false)
    expect(captured.log().map((line) => line.event)).toEqual([event])
    expect(await worker.settle([b])).toBe(isSettled)
  })

  it('leaves a call to the process that holds its lease, and does the rest afterwards', async () => {
    const worker = startWorker()
    const otherWorker = startWorker(await files.open({ tracksPins: true }))
    node.isHolding = true
    await add('a')
    const settled = worker.settle([a])
    const call = await node.heldCall('add', a)
    await remove('a')
    expect(await otherWorker.settle([a])).toBe(false)
    expect(node.calls).toEqual([`add ${a}`])
    node.isHolding = false
    call.finish()
    await settled
    worker.start()
    await until(async () => (await store.countOpen()) === 0)
    expect([...node.pins]).toEqual([])
  })

  it('returns false from settle after 2 s, and continues the call', async () => {
    const worker = startWorker()
    node.isHolding = true
    await add('a')
    const settled = worker.settle([a])
    const call = await node.heldCall('add', a)
    jest.advanceTimersByTime(2_000)
    expect(await settled).toBe(false)
    call.finish()
    await until(async () => (await store.countOpen()) === 0)
  })

  it('delays a pin longer after each refusal or missing content, while other pins continue', async () => {
    const worker = startWorker()
    node.fault = (verb, cid) => (verb === 'add' && cid === a ? 'ERR_IPFS_BAD_RESPONSE' : undefined)
    await add('a')
    for (const wait of [1, 2, 4]) {
      const calls = node.calls.length
      expect(await worker.settle([a])).toBe(false)
      files.clocks.advance(wait - 1)
      expect(await worker.settle([a])).toBe(false)
      expect(node.calls).toHaveLength(calls + 1)
      files.clocks.advance(1)
    }
    await add('b')
    expect(await worker.settle([b])).toBe(true)
    expect(captured.log()).toContainEqual(
      expect.objectContaining({ level: 50, event: 'pin-failed', reason: 'ERR_IPFS_BAD_RESPONSE' })
    )
  })
})

describe('PinWorker with an unavailable node', () => {
  it('calls the node for the first write only, and sends the rest after a call succeeds', async () => {
    const worker = startWorker()
    node.fault = () => 'ERR_IPFS_UNAVAILABLE'
    const texts = Array.from({ length: 20 }, (_, index) => `c${index}`)
    for (const text of texts) {
      await add(text)
      expect(await worker.settle([computeCid(text)])).toBe(false)
    }
    expect(node.calls).toEqual([`add ${computeCid('c0')}`])
    expect(captured.log()).toEqual([
      expect.objectContaining({ level: 40, event: 'ipfs-unavailable', reason: 'ERR_IPFS_UNAVAILABLE' })
    ])
    node.fault = () => undefined
    files.clocks.advance(1)
    jest.advanceTimersToNextTimer()
    await until(() => node.pins.size === texts.length)
    await until(() => captured.log().length > 1)
    expect(captured.log()[1]).toMatchObject({ level: 30, event: 'ipfs-available' })
  })

  /** Advances the clock to the next call, waits until it has failed, and returns the wait in seconds. */
  async function passToNextCall(): Promise<number> {
    const [before, calls] = [jest.now(), node.calls.length]
    files.clocks.advance(60)
    jest.advanceTimersToNextTimer()
    const waited = jest.now() - before
    await until(() => node.calls.length === calls + 1 && jest.getTimerCount() === 1)
    return waited / 1_000
  }

  it('retries with one call after 1, 2, 4, 8, 16, 32, 60 and 60 s', async () => {
    const worker = startWorker()
    node.fault = () => 'ERR_IPFS_UNAVAILABLE'
    await Promise.all([add('a'), add('b')])
    expect(await worker.settle([a])).toBe(false)
    const waits: number[] = []
    while (waits.length < 8) waits.push(await passToNextCall())
    expect(waits).toEqual([1, 2, 4, 8, 16, 32, 60, 60])
  })

  it('also retries for a write, at the earliest 5 s after the last failure', async () => {
    const worker = startWorker()
    node.fault = () => 'ERR_IPFS_UNAVAILABLE'
    await add('a')
    expect(await worker.settle([a])).toBe(false)
    expect([await passToNextCall(), await passToNextCall(), await passToNextCall()]).toEqual([1, 2, 4])
    node.fault = () => undefined
    await add('b')
    jest.advanceTimersByTime(4_999)
    expect(await worker.settle([b])).toBe(false)
    expect(node.calls).toHaveLength(4)
    jest.advanceTimersByTime(1)
    expect(await worker.settle([b])).toBe(true)
  })

  it('answers calls of settle that already wait', async () => {
    const worker = startWorker()
    node.isHolding = true
    await Promise.all([add('a'), add('b')])
    const answers = [a, b].map((cid) => worker.settle([cid]))
    ;(await node.heldCall('add', a)).fail('ERR_IPFS_UNAVAILABLE')
    expect(await Promise.all(answers)).toEqual([false, false])
  })

  it('makes no call after it was stopped', async () => {
    const worker = startWorker()
    await add('a')
    await worker.stop()
    expect(await worker.settle([a])).toBe(false)
    expect(node.calls).toEqual([])
  })
})
