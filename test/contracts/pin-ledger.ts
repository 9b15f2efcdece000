import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import type { PinTask } from '../../servers/content/content-store.js'
import {
  computeCid,
  did,
  createEntry,
  createFile,
  NOW,
  type ContentFolder,
  type TestStore
} from '../support/servers/content-stores.js'

const LEASE_SECONDS = 30

/** Tests the contract of every PinLedger. Two stores share everything, like two instances of a server. */
export function pinLedgerContract(makeFolder: () => ContentFolder | Promise<ContentFolder>): void {
  let files: ContentFolder
  let store: TestStore
  let another: TestStore
  beforeEach(async () => {
    files = await makeFolder()
    store = await files.open({ tracksPins: true })
    another = await files.open({ tracksPins: true })
  })
  afterEach(() => files.remove())

  const entryId = { did, key: 'k' }
  const cid = computeCid('a')
  const claim = async (nowSeconds: number, claimant = store): Promise<readonly PinTask[]> =>
    claimant.claim({ limit: 10, nowSeconds, leaseSeconds: LEASE_SECONDS })
  const claimOne = async (nowSeconds: number, claimant = store): Promise<PinTask> => {
    const [task, ...others] = await claim(nowSeconds, claimant)
    expect(others).toEqual([])
    expect(task).toBeDefined()
    return task!
  }
  const pin = async (): Promise<void> => {
    await store.writeEntry(createEntry('k', 'a'))
    await store.finish(await claimOne(NOW), NOW)
  }

  describe('pending tasks', () => {
    it('pin written content once, and nothing after that', async () => {
      expect(await store.writeEntry(createEntry('k', 'a'))).toMatchObject({ changedPins: [cid] })
      expect(await another.areSettled([cid])).toBe(false)
      const task = await claimOne(NOW)
      expect(task).toMatchObject({ cid, desired: 'pinned', attempts: 0, isInDoubt: false })
      expect(await another.finish(task, NOW)).toBe(true)
      expect(await another.areSettled([cid])).toBe(true)
      expect(await store.writeEntry(createEntry('k', 'a'))).toMatchObject({ changedPins: [] })
      expect(await claim(NOW)).toEqual([])
    })

    it('unpin content without an entry', async () => {
      await pin()
      await store.writeEntry(createEntry('other', 'a'))
      expect(await store.removeEntries(entryId)).toMatchObject({ changedPins: [] })
      expect(await store.removeEntries({ did, key: 'other' })).toMatchObject({ changedPins: [cid] })
      const task = await claimOne(NOW)
      expect(task).toMatchObject({ cid, desired: 'unpinned' })
      expect(await store.finish(task, NOW)).toBe(true)
      expect(await store.countOpen()).toBe(0)
    })

    it('are reported by a PUT for the content that it wrote and replaced', async () => {
      await pin()
      const { changedPins } = await store.writeEntry(createEntry('k', 'b', { replaces: 'all' }))
      expect([...changedPins].sort()).toEqual([cid, computeCid('b')].sort())
    })

    it('pin files, and unpin them after they expire or are taken down', async () => {
      expect(await store.writeFile(createFile('a'))).toEqual({ changedPins: [cid] })
      await store.writeFile(createFile('b'))
      for (const task of await claim(NOW)) await store.finish(task, NOW)
      await store.takeDown(computeCid('b'), '', NOW)
      files.clocks.advance(2_000)
      await store.deleteExpiredFiles(files.clocks.seconds)
      const tasks = await claim(files.clocks.seconds)
      expect(tasks.map((task) => [task.cid, task.desired]).sort()).toEqual(
        [
          [cid, 'unpinned'],
          [computeCid('b'), 'unpinned']
        ].sort()
      )
    })

    it('only unpin earlier pins if there is no node', async () => {
      await pin()
      const without = await files.open({ tracksPins: false })
      expect(await without.writeEntry(createEntry('k', 'b'))).toMatchObject({ changedPins: [] })
      expect(await without.removeEntries(entryId)).toMatchObject({ changedPins: [cid] })
      expect(await without.countOpen()).toBe(1)
    })

    it('pin content that still has a pin, also if there is no node', async () => {
      await pin()
      await store.removeEntries(entryId)
      const without = await files.open({ tracksPins: false })
      expect(await without.writeEntry(createEntry('k', 'a'))).toMatchObject({ changedPins: [cid] })
      await without.removeEntries(entryId)
      expect(await without.writeFile(createFile('a'))).toEqual({ changedPins: [cid] })
    })
  })

  describe('claim', () => {
    it('belongs to one worker at a time, oldest tasks first, and at most as many as requested', async () => {
      for (const text of ['a', 'b', 'c']) await store.writeEntry(createEntry('k', text))
      const request = { limit: 2, nowSeconds: NOW, leaseSeconds: LEASE_SECONDS }
      const first = await store.claim(request)
      expect(first.map((task) => task.cid)).toEqual([cid, computeCid('b')])
      const claims = await Promise.all([store.claim(request), another.claim(request), store.claim(request)])
      expect(claims.flat().map((task) => task.cid)).toEqual([computeCid('c')])
    })

    it('can be limited to some CIDs', async () => {
      for (const text of ['a', 'b', 'c']) await store.writeEntry(createEntry('k', text))
      const cids = [computeCid('c'), computeCid('unknown')]
      const tasks = await store.claim({ cids, limit: 10, nowSeconds: NOW, leaseSeconds: LEASE_SECONDS })
      expect(tasks.map((task) => task.cid)).toEqual([computeCid('c')])
      expect(await claim(NOW)).toHaveLength(2)
    })

    it('leaves its task in doubt if it expires without a result, and ignores a later result', async () => {
      await store.writeEntry(createEntry('k', 'a'))
      const first = await claimOne(NOW)
      expect(await claim(NOW + LEASE_SECONDS - 1)).toEqual([])
      const second = await claimOne(NOW + LEASE_SECONDS, another)
      expect(second).toMatchObject({ cid, isInDoubt: true })
      expect(second.revision).toBeGreaterThan(first.revision)
      expect(await store.finish(first, NOW + 31)).toBe(false)
      await store.postpone(first, NOW + 1_000)
      expect(await another.areSettled([cid])).toBe(false)
      expect(await claim(NOW + 31)).toEqual([])
      expect(await another.finish(second, NOW + 32)).toBe(true)
    })
  })

  it('ignores a second result of the same claim', async () => {
    await store.writeEntry(createEntry('k', 'a'))
    const task = await claimOne(NOW)
    const results = [await store.finish(task, NOW), await store.finish(task, NOW), await store.postpone(task, NOW + 5)]
    expect(results).toEqual([true, false, false])
    await store.removeEntries(entryId)
    expect(await claimOne(NOW)).toMatchObject({ desired: 'unpinned', isInDoubt: false })
  })

  describe('task in doubt', () => {
    it('is repeated a minute later', async () => {
      await store.writeEntry(createEntry('k', 'a'))
      await claimOne(NOW)
      const inDoubt = await claimOne(NOW + LEASE_SECONDS)
      expect(await store.finish(inDoubt, NOW + 40)).toBe(true)
      expect(await store.areSettled([cid])).toBe(false)
      await store.retryNow(NOW + 50)
      expect(await claim(NOW + 99)).toEqual([])
      const secondClaim = await claimOne(NOW + 100)
      expect(secondClaim).toMatchObject({ isInDoubt: false })
      expect(await store.finish(secondClaim, NOW + 100)).toBe(true)
      expect(await store.finish(inDoubt, NOW + 100)).toBe(false)
      expect(await store.areSettled([cid])).toBe(true)
    })

    it('also follows a failed call, because the node may still carry it out', async () => {
      await store.writeEntry(createEntry('k', 'a'))
      await store.postpone(await claimOne(NOW), NOW + 5)
      await store.removeEntries(entryId)
      expect(await claimOne(NOW)).toMatchObject({ desired: 'unpinned', isInDoubt: true, attempts: 0 })
    })
  })

  describe('failure', () => {
    it('delays a task, and counts', async () => {
      await store.writeEntry(createEntry('k', 'a'))
      await store.postpone(await claimOne(NOW), NOW + 5)
      expect(await claim(NOW + 4)).toEqual([])
      expect(await claimOne(NOW + 5)).toMatchObject({ attempts: 1, isInDoubt: false })
    })

    it('causes no delay after retryNow', async () => {
      await store.writeEntry(createEntry('k', 'a'))
      await store.postpone(await claimOne(NOW), NOW + 3_600)
      await another.retryNow(NOW + 1)
      expect(await claimOne(NOW + 1)).toMatchObject({ attempts: 1 })
    })
  })

  describe('change of the desired state while a call is in flight', () => {
    let first: PinTask
    beforeEach(async () => {
      await store.writeEntry(createEntry('k', 'a'))
      first = await claimOne(NOW)
      await another.removeEntries(entryId)
    })

    it('waits for the end of that call, so that neither call overtakes the other', async () => {
      expect(await claim(NOW + 29, another)).toEqual([])
      expect(await store.finish(first, NOW + 29)).toBe(false)
      expect(await claimOne(NOW + 29, another)).toMatchObject({ desired: 'unpinned', isInDoubt: false })
    })

    it('is in doubt if that call fails', async () => {
      await store.postpone(first, NOW + 60)
      expect(await claimOne(NOW + 1, another)).toMatchObject({ desired: 'unpinned', isInDoubt: true })
    })

    it('is in doubt if the lease of that call expires', async () => {
      expect(await claimOne(NOW + 30, another)).toMatchObject({ desired: 'unpinned', isInDoubt: true })
    })

    it('is done again if the state changes back', async () => {
      await store.writeEntry(createEntry('k', 'a'))
      expect(await store.finish(first, NOW + 1)).toBe(false)
      expect(await claimOne(NOW + 1)).toMatchObject({ desired: 'pinned' })
    })
  })

  it('pins again what the node has lost, and counts pins of others, when compared with the node', async () => {
    for (const text of ['a', 'b', 'c']) await store.writeEntry(createEntry('k', text))
    for (const task of await claim(NOW)) if (task.cid !== computeCid('c')) await store.finish(task, NOW)
    const onNode = new Set([computeCid('b'), 'of another', 'of a third'])
    expect(await store.comparePins(() => Promise.resolve(onNode))).toEqual({ missing: 1, others: 2 })
    expect(await claimOne(NOW)).toMatchObject({ cid, desired: 'pinned' })
    expect(await store.countOpen()).toBe(2)
  })

  // A running server pins and unpins while the node lists what it has.
  it('does not count content as lost that was pinned after the node was listed', async () => {
    await store.writeEntry(createEntry('k', 'a'))
    const [task] = await claim(NOW)
    const onNode = new Set<string>()
    const listOnNode = async (): Promise<ReadonlySet<string>> => {
      const listed = new Set(onNode)
      if (onNode.size === 0) {
        onNode.add(cid)
        await store.finish(task!, NOW)
      }
      return listed
    }
    expect(await store.comparePins(listOnNode)).toEqual({ missing: 0, others: 0 })
    expect(await store.countOpen()).toBe(0)
  })

  it('does not pin again what is removed while the node is listed', async () => {
    await pin()
    let lists = 0
    const listOnNode = async (): Promise<ReadonlySet<string>> => {
      lists += 1
      if (lists === 2) await another.removeEntries(entryId)
      return new Set()
    }
    expect(await store.comparePins(listOnNode)).toEqual({ missing: 0, others: 0 })
    expect(await claimOne(NOW)).toMatchObject({ cid, desired: 'unpinned' })
  })
}
