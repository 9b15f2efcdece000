import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import type { PinTask } from '../../../../servers/storage/pin-ledger.js'
import { cidOf, did, entryOf, type TestStore } from '../../../support/content-stores.js'
import { usePostgresContents, type PostgresContents } from '../../../support/postgres-contents.js'

const ROUNDS = 12
const WORKERS = 3
const LEASE_SECONDS = 30
const TEXTS = ['a', 'b', 'c', 'd', 'e', 'f']

const make = usePostgresContents()
let files: PostgresContents
beforeEach(async () => {
  files = await make()
})
afterEach(() => files.remove())

/** A node that carries out what it is asked, and notices when it is asked twice at once for one cid. */
class Node {
  readonly pins = new Set<string>()
  readonly faults: string[] = []
  readonly #underWay = new Set<string>()

  async call({ cid, desired }: PinTask): Promise<void> {
    if (this.#underWay.has(cid)) this.faults.push(`two calls for ${cid}`)
    this.#underWay.add(cid)
    await new Promise(setImmediate)
    if (desired === 'pinned') this.pins.add(cid)
    else this.pins.delete(cid)
    this.#underWay.delete(cid)
  }
}

/** Works until nothing is due. Every fifth call fails, after every seventh the worker is killed. */
async function work(store: TestStore, node: Node, calls: { count: number }, nowSeconds: number): Promise<void> {
  for (;;) {
    const tasks = await store.claim({ limit: 3, nowSeconds, leaseSeconds: LEASE_SECONDS })
    if (tasks.length === 0) return
    for (const task of tasks) {
      const number = (calls.count += 1)
      if (number % 5 === 0) {
        await store.postpone(task, nowSeconds + 10)
        continue
      }
      await node.call(task)
      if (number % 7 === 0) return
      await store.finish(task, nowSeconds)
    }
  }
}

describe('three workers of one ledger, beside writers', () => {
  it('never call the node twice at once for a cid, and bring it in step whatever failed', async () => {
    const stores = await Promise.all(Array.from({ length: WORKERS }, () => files.open({ tracksPins: true })))
    const node = new Node()
    const calls = { count: 0 }
    for (let round = 0; round < ROUNDS; round += 1) {
      const writers = stores.map(async (store, writer) => {
        const [owner, key] = [`${did}${writer}`, `key ${writer}`]
        for (const [index, text] of TEXTS.entries()) {
          if ((round + index + writer) % 3 === 0) await store.removeEntries({ did: owner, key, cid: cidOf(text) })
          else await store.writeEntry(entryOf(key, text, { did: owner }))
        }
        if (round % 4 === 3) await store.removeEntries({ did: owner, key })
      })
      const workers = stores.map((store) => work(store, node, calls, files.clocks.seconds))
      await Promise.all([...writers, ...workers])
      files.clocks.advance(LEASE_SECONDS + 1)
    }
    await stores[0]!.writeEntry(entryOf('last', 'a'))
    while ((await stores[0]!.countOpen()) > 0) {
      await Promise.all(stores.map((store) => work(store, node, calls, files.clocks.seconds)))
      // As long as what is in doubt waits.
      files.clocks.advance(60)
    }
    const stored = await files.query('SELECT cid FROM vault_contents')
    expect([...node.pins].sort()).toEqual(stored.map(({ cid }) => cid).sort())
    expect(node.pins).toContain(cidOf('a'))
    expect(node.faults).toEqual([])
  })
})
