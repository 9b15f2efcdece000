import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import Database from 'better-sqlite3'
import { NodeFileStore } from '../../servers/relay/node-file-store.js'
import { contentOf } from '../../servers/shared/content/content-blocks.js'
import type { SqliteFile } from '../../servers/shared/content/database.js'
import type { IpfsNode } from '../../servers/shared/ipfs/ipfs-node.js'
import { ServerError } from '../../servers/shared/http/server-error.js'

const TTL_SECONDS = 3_600
/** 100 bytes of two files, each with 512 beside them. */
const MAX_BYTES = 1_124
const away = new ServerError('ERR_NODE_AWAY')
const { signal } = new AbortController()

/** A node that does what the test says when it is asked, and then what it was asked. */
class HandMadeNode implements Pick<IpfsNode, 'add' | 'unpin'> {
  readonly pins = new Set<string>()
  /** Called before an order is carried out, which waits for it, and fails with it. */
  onAsked: (verb: 'add' | 'unpin', cid: string) => unknown = () => undefined

  async add(cid: string): Promise<void> {
    await this.onAsked('add', cid)
    this.pins.add(cid)
  }

  async unpin(cid: string): Promise<void> {
    await this.onAsked('unpin', cid)
    this.pins.delete(cid)
  }
}

let database: SqliteFile
let node: HandMadeNode
let store: NodeFileStore

const open = (ttlSeconds = TTL_SECONDS) =>
  new NodeFileStore(database, node as unknown as IpfsNode, { ttlSeconds, maxBytes: MAX_BYTES })
const cidOf = (file: string) => contentOf(Buffer.from(file)).cid
const keep = (file: string, nowSeconds: number) => {
  const bytes = Buffer.from(file)
  return store.keep(contentOf(bytes), bytes, nowSeconds)
}
const rows = () => database.prepare('SELECT cid FROM files').pluck().all()

beforeEach(() => {
  database = new Database(':memory:')
  node = new HandMadeNode()
  store = open()
})

afterEach(() => {
  database.close()
})

describe('NodeFileStore', () => {
  it('leaves alone what is posted again, and confirmed, while the sweep lets go of what comes before it', async () => {
    await keep('first', 11_000)
    await keep('again', 11_001)
    node.onAsked = async (verb) => {
      if (verb === 'unpin' && node.pins.has(cidOf('first'))) await keep('again', 14_601)
    }
    await store.sweep(14_601, signal)
    expect([[...node.pins], rows()]).toEqual([[cidOf('again')], [cidOf('again')]])
    node.onAsked = () => undefined
    await store.sweep(18_200, signal)
    expect(rows()).toEqual([cidOf('again')])
    await store.sweep(18_201, signal)
    expect([[...node.pins], rows()]).toEqual([[], []])
  })

  it('leaves alone what is being added just now', async () => {
    await keep('first', 11_000)
    await keep('again', 11_001)
    const unpinned: string[] = []
    let posting = Promise.resolve()
    node.onAsked = (verb, cid) => {
      if (verb !== 'unpin') return
      unpinned.push(cid)
      posting = keep('again', 14_601)
      throw new ServerError('ERR_NODE_NONSENSE')
    }
    await expect(store.sweep(14_601, signal)).rejects.toMatchObject({ code: 'ERR_NODE_NONSENSE' })
    await posting
    expect(unpinned).toEqual([cidOf('first')])
  })

  it('asks the node once for one content that 20 keep at once', async () => {
    let asked = 0
    let answer = (): void => undefined
    const answered = new Promise<void>((resolve) => (answer = resolve))
    node.onAsked = () => {
      asked += 1
      return answered
    }
    const keeping = Promise.all(Array.from({ length: 20 }, () => keep('hello', 11_000)))
    while (asked === 0) await new Promise(setImmediate)
    const late = keep('hello', 11_001)
    answer()
    await Promise.all([keeping, late])
    expect([asked, rows()]).toEqual([1, [cidOf('hello')]])
    await keep('hello', 11_002)
    expect(asked).toBe(2)
  })

  it('refuses what it lets go of just now, and takes it afterwards', async () => {
    await keep('hello', 11_000)
    let refusal: unknown
    node.onAsked = async () => {
      refusal = await keep('hello', 14_600).catch((error: unknown) => error)
    }
    await store.sweep(14_600, signal)
    expect(refusal).toMatchObject({ code: 'ERR_BUSY' })
    node.onAsked = () => undefined
    await keep('hello', 14_600)
    expect([[...node.pins], rows()]).toEqual([[cidOf('hello')], [cidOf('hello')]])
  })

  it('counts what it could not keep neither against its bytes nor, once it is kept, twice', async () => {
    node.onAsked = () => Promise.reject(away)
    for (const file of ['1', '2', '3']) {
      await expect(keep(file.repeat(60), 11_000)).rejects.toMatchObject({ code: 'ERR_NODE_AWAY' })
    }
    expect(rows()).toHaveLength(3)
    node.onAsked = () => undefined
    await keep('1'.repeat(60), 11_001)
    await keep('1'.repeat(60), 11_002)
    await keep('4'.repeat(40), 11_003)
    await expect(keep('5', 11_004)).rejects.toMatchObject({
      message: 'Storage full: 1124 of 1124 bytes in use by all, 513 needed'
    })
    await store.sweep(19_000, signal)
    expect([rows(), database.prepare('SELECT bytes FROM totals').pluck().get()]).toEqual([[], 0])
  })

  it('cannot be filled beyond its bytes by many files at once', async () => {
    const outcomes = await Promise.allSettled(['1', '2', '3'].map((file) => keep(file.repeat(40), 11_000)))
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(2)
    expect(database.prepare('SELECT bytes FROM totals').pluck().get()).toBe(80)
    await store.sweep(11_600, signal)
    expect([node.pins.size, rows()]).toEqual([2, [...node.pins].sort()])
  })

  it('waits 10 minutes after the last attempt before it takes off what nobody confirmed', async () => {
    node.onAsked = (verb) => (verb === 'add' ? Promise.reject(away) : undefined)
    await expect(keep('hello', 11_000)).rejects.toBe(away)
    await expect(keep('hello', 11_500)).rejects.toBe(away)
    node.pins.add(cidOf('hello'))
    await store.sweep(12_099, signal)
    expect([node.pins.size, rows()]).toEqual([1, [cidOf('hello')]])
    await store.sweep(12_100, signal)
    expect([node.pins.size, rows()]).toEqual([0, []])
  })

  it('waits so, too, for what was kept and has ended meanwhile', async () => {
    await keep('hello', 11_000)
    node.onAsked = (verb) => (verb === 'add' ? Promise.reject(away) : undefined)
    await expect(keep('hello', 14_500)).rejects.toBe(away)
    await store.sweep(15_099, signal)
    expect(rows()).toEqual([cidOf('hello')])
    await store.sweep(15_100, signal)
    expect([node.pins.size, rows()]).toEqual([0, []])
  })

  it('frees room when files are kept for less long than they were', async () => {
    await keep('hello', 11_000)
    store = open(100)
    await store.sweep(11_099, signal)
    expect(rows()).toEqual([cidOf('hello')])
    await store.sweep(11_100, signal)
    expect([node.pins.size, rows()]).toEqual([0, []])
  })
})
