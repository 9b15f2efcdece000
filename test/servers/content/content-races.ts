import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import fc from 'fast-check'
import type { PinTask } from '../../../servers/content/content-store.js'
import { operations, runOnModel } from '../../support/models/content-model.js'
import { failingObjects, raceOfWriters } from '../../support/models/content-race.js'
import {
  computeCid,
  did,
  createEntry,
  NOW,
  listObjectNames,
  type ContentFolder,
  type TestStore
} from '../../support/servers/content-stores.js'

/** How much the tests do. */
export interface RaceSizes {
  /** Number of sequences of 30 operations. */
  readonly sequences: number
  /** Seed of the sequences. Default: random. */
  readonly seed?: number
  readonly operations: number
  readonly operationsWithFaults: number
  /** Rounds of three workers for pins. */
  readonly rounds: number
}

/**
 * Tests stores on one engine by random operations, one after the other and at the same time.
 *
 * @returns a function that returns the storage of the running test
 */
export function contentRaces(
  make: () => ContentFolder | Promise<ContentFolder>,
  { sequences, seed, operations: operationCount, operationsWithFaults, rounds }: RaceSizes
): () => ContentFolder {
  let files: ContentFolder
  beforeEach(async () => {
    files = await make()
  })
  afterEach(() => files.remove())

  it('match the model after any sequence of verbs, and store as many objects', async () => {
    const stores = [await files.open(), await files.open()]
    const property = fc.asyncProperty(operations, async (sequence) => {
      const { faults, large } = await runOnModel(stores, sequence)
      expect(faults).toEqual([])
      await stores[0]!.collectGarbage(NOW, { isFull: true })
      const cids = (await listObjectNames(files.objects)).map((name) => name.slice(0, name.indexOf('.')))
      expect(cids).toEqual(large.map(computeCid).sort())
    })
    await fc.assert(property, { numRuns: sequences, ...(seed !== undefined && { seed }) })
  })

  describe('concurrent writers and collectors on several stores', () => {
    it('lose nothing, leave nothing behind and never deadlock', async () => {
      const { faults, refusals } = await raceOfWriters(files, { operations: operationCount, stores: 4 })
      expect({ faults, refusals }).toEqual({ faults: [], refusals: [] })
      expect(files.retries()).not.toHaveProperty('40P01')
    })

    it('lose nothing acknowledged when objects fail before or after a write or deletion', async () => {
      const { faults, refusals } = await raceOfWriters(files, {
        operations: operationsWithFaults,
        stores: 2,
        objects: failingObjects()
      })
      expect(faults).toEqual([])
      expect(refusals).toContain('Storage unavailable, try again: EIO')
    })
  })

  it('let three workers call the node once at a time per CID, and match its pins after failures', async () => {
    const stores = await Promise.all([1, 2, 3].map(() => files.open({ tracksPins: true })))
    const node = new Node()
    for (let round = 0; round < rounds; round += 1) {
      const writers = stores.map(async (store, writer) => {
        const [owner, key] = [`${did}${writer}`, `key ${writer}`]
        for (const [index, text] of ['a', 'b', 'c', 'd', 'e', 'f'].entries()) {
          if ((round + index + writer) % 3 === 0) await store.removeEntries({ did: owner, key, cid: computeCid(text) })
          else await store.writeEntry(createEntry(key, text, { did: owner }))
        }
        if (round % 4 === 3) await store.removeEntries({ did: owner, key })
      })
      await Promise.all([...writers, ...stores.map((store) => node.work(store, files.clocks.seconds))])
      files.clocks.advance(LEASE_SECONDS + 1)
    }
    await stores[0]!.writeEntry(createEntry('last', 'a'))
    for (let round = 0; (await stores[0]!.countOpen()) > 0; round += 1) {
      if (round > MAX_ROUNDS) throw new Error(`${await stores[0]!.countOpen()} tasks of pins stay open`)
      await Promise.all(stores.map((store) => node.work(store, files.clocks.seconds)))
      // A task in doubt waits for 60 s.
      files.clocks.advance(60)
    }
    const stored = await files.query('SELECT cid FROM ~contents')
    expect([...node.pins].sort()).toEqual(stored.map(({ cid }) => cid).sort())
    expect(node.pins).toContain(computeCid('a'))
    expect(node.faults).toEqual([])
  })

  return () => files
}

const LEASE_SECONDS = 30
/** Bounds after which work on pins that never ends is a fault. */
const [MAX_ROUNDS, MAX_CALLS] = [1_000, 50_000]

/** A node that records two concurrent calls for one CID as a fault. */
class Node {
  readonly pins = new Set<string>()
  readonly faults: string[] = []
  readonly #underWay = new Set<string>()
  #calls = 0

  /** Works until no task is due. Every fifth call fails, and every seventh kills the worker before it is recorded. */
  async work(store: TestStore, nowSeconds: number): Promise<void> {
    for (;;) {
      const tasks = await store.claim({ limit: 3, nowSeconds, leaseSeconds: LEASE_SECONDS })
      if (tasks.length === 0) return
      for (const task of tasks) {
        const number = (this.#calls += 1)
        if (number > MAX_CALLS) throw new Error(`tasks stay due after ${MAX_CALLS} calls, the last is ${task.desired}`)
        if (number % 5 === 0) {
          await store.postpone(task, nowSeconds + 10)
          continue
        }
        await this.#call(task)
        if (number % 7 === 0) return
        await store.finish(task, nowSeconds)
      }
    }
  }

  async #call({ cid, desired }: PinTask): Promise<void> {
    if (this.#underWay.has(cid)) this.faults.push(`two calls for ${cid}`)
    this.#underWay.add(cid)
    await new Promise(setImmediate)
    if (desired === 'pinned') this.pins.add(cid)
    else this.pins.delete(cid)
    this.#underWay.delete(cid)
  }
}
