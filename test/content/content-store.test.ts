import { beforeEach, describe, expect, it } from '@jest/globals'
import Database from 'better-sqlite3'
import { createHash } from 'node:crypto'
import { contentOf, type Content } from '../../servers/shared/content/content-blocks.js'
import { recountBlocks } from '../../servers/shared/content/content-recount.js'
import { ContentStore } from '../../servers/shared/content/content-store.js'
import type { SqliteFile } from '../../servers/shared/content/database.js'

const LEAF_BYTES = 262_144

let database: SqliteFile
let store: ContentStore
beforeEach(() => {
  database = new Database(':memory:')
  store = new ContentStore(database)
})

/** A leaf of its own for each letter. */
const leafOf = (letter: string): Buffer => Buffer.alloc(LEAF_BYTES, letter)
const contentOfLeaves = (letters: string): Content => contentOf(Buffer.concat(Array.from(letters, leafOf)))
const leafCid = (letter: string): string => contentOf(leafOf(letter)).cid

function uses(cid: string): number | undefined {
  return database.prepare<[string], number>('SELECT uses FROM blocks WHERE cid = ?').pluck().get(cid)
}
function blockCount(): number | undefined {
  return database.prepare<[], number>('SELECT count(*) FROM blocks').pluck().get()
}
function lose(cid: string): void {
  expect(database.prepare('DELETE FROM blocks WHERE cid = ?').run(cid).changes).toBe(1)
}
function damage(cid: string): void {
  const change = database.prepare("UPDATE blocks SET bytes = CAST('x' || substr(bytes, 2) AS BLOB) WHERE cid = ?")
  expect(change.run(cid).changes).toBe(1)
}
function textOf(cid: string): string | undefined {
  const bytes = store.read(cid)
  return bytes === undefined ? undefined : Buffer.from(bytes).toString()
}

describe('ContentStore', () => {
  it('gives back what it keeps, and nothing after it was removed', () => {
    const content = contentOf(Buffer.from('text'))
    expect(store.read(content.cid)).toBeUndefined()
    store.add(content)
    expect(textOf(content.cid)).toBe('text')
    store.remove(content.cid)
    expect(store.read(content.cid)).toBeUndefined()
    expect(blockCount()).toBe(0)
  })

  it('keeps content of no bytes', () => {
    store.add(contentOf(Buffer.alloc(0)))
    expect(textOf('bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku')).toBe('')
  })

  it('gives back the leaves of a file in their order', () => {
    const content = contentOfLeaves('cab')
    store.add(content)
    expect(textOf(content.cid)).toBe('c'.repeat(LEAF_BYTES) + 'a'.repeat(LEAF_BYTES) + 'b'.repeat(LEAF_BYTES))
  })

  it('gives back a file with nodes below nodes, and removes all of it', () => {
    const bytes = createHash('shake256', { outputLength: 175 * LEAF_BYTES })
      .update('175 leaves')
      .digest()
    const content = contentOf(bytes)
    store.add(content)
    expect(blockCount()).toBe(178)
    expect(Buffer.compare(store.read(content.cid)!, bytes)).toBe(0)
    store.remove(content.cid)
    expect(blockCount()).toBe(0)
  })

  it('keeps content that was added twice until it is removed twice', () => {
    const content = contentOfLeaves('ab')
    store.add(content)
    store.add(content)
    store.remove(content.cid)
    expect(store.read(content.cid)).toHaveLength(2 * LEAF_BYTES)
    store.remove(content.cid)
    expect(blockCount()).toBe(0)
  })

  it('keeps a block that two files share once, until both are gone', () => {
    const [one, two] = [contentOfLeaves('ab'), contentOfLeaves('bc')]
    store.add(one)
    store.add(two)
    expect(blockCount()).toBe(5)
    store.remove(one.cid)
    expect(store.read(two.cid)).toHaveLength(2 * LEAF_BYTES)
    expect(blockCount()).toBe(3)
    store.remove(two.cid)
    expect(blockCount()).toBe(0)
  })

  it('keeps a leaf that is a file of its own as well', () => {
    const [leaf, file] = [contentOf(leafOf('a')), contentOfLeaves('ab')]
    store.add(leaf)
    store.add(file)
    store.remove(file.cid)
    expect(store.read(leaf.cid)).toHaveLength(LEAF_BYTES)
    expect(blockCount()).toBe(1)
  })

  it('keeps a block that one file has twice once, and removes it with the file', () => {
    const content = contentOfLeaves('aba')
    store.add(content)
    expect(blockCount()).toBe(3)
    expect(uses(leafCid('a'))).toBe(2)
    expect(textOf(content.cid)).toBe('a'.repeat(LEAF_BYTES) + 'b'.repeat(LEAF_BYTES) + 'a'.repeat(LEAF_BYTES))
    store.remove(content.cid)
    expect(blockCount()).toBe(0)
  })

  it('keeps a node that one file has twice, and removes it with the file', () => {
    const content = contentOf(Buffer.alloc(2 * 174 * LEAF_BYTES, 'a'))
    store.add(content)
    expect(blockCount()).toBe(3)
    store.remove(content.cid)
    expect(blockCount()).toBe(0)
  }, 20_000)

  it('removes nothing for a cid that it does not keep', () => {
    store.add(contentOfLeaves('ab'))
    store.remove(contentOfLeaves('ba').cid)
    expect(blockCount()).toBe(3)
  })

  it('changes nothing when the transaction of its caller is undone', () => {
    const write = database.transaction(() => {
      store.add(contentOfLeaves('ab'))
      throw new Error('undone')
    })
    expect(write).toThrow('undone')
    expect(blockCount()).toBe(0)
  })

  describe.each([
    ['lost', lose],
    ['damaged', damage]
  ])('with %s blocks', (_what, harm) => {
    const file = contentOfLeaves('aba')

    it.each([
      ['a leaf', leafCid('b')],
      ['the root', file.cid]
    ])('answers nothing rather than a part, where it is %s', (_which, cid) => {
      store.add(file)
      harm(cid)
      expect(store.read(file.cid)).toBeUndefined()
    })

    it.each([
      ['a leaf', leafCid('b')],
      ['a leaf that is there twice', leafCid('a')],
      ['the root', file.cid]
    ])('is whole again after repair of %s, and takes no block from a file that shares it', (_which, cid) => {
      const [before, after] = [contentOfLeaves('ba'), contentOf(leafOf('b'))]
      store.add(before)
      store.add(file)
      store.add(after)
      harm(cid)
      store.repair(file)
      expect(store.read(file.cid)).toHaveLength(3 * LEAF_BYTES)
      store.remove(file.cid)
      expect(store.read(before.cid)).toHaveLength(2 * LEAF_BYTES)
      store.remove(before.cid)
      expect(store.read(after.cid)).toHaveLength(LEAF_BYTES)
    })

    it('says on removal whether something that nothing uses may have stayed', () => {
      const other = contentOfLeaves('c')
      store.add(other)
      store.add(file)
      harm(leafCid('b'))
      store.repair(file)
      expect(store.remove(other.cid)).toBe(true)
      expect(store.remove(file.cid)).toBe(blockCount() === 0)
      store.add(file)
      harm(file.cid)
      expect(store.remove(file.cid)).toBe(false)
    })

    it('removes what is left of a file without one of its leaves', () => {
      store.add(file)
      harm(leafCid('a'))
      store.remove(file.cid)
      expect(blockCount()).toBe(0)
    })

    it('removes the root that it cannot read, and leaves what is below it', () => {
      store.add(file)
      harm(file.cid)
      store.remove(file.cid)
      expect(uses(file.cid)).toBeUndefined()
      expect([uses(leafCid('a')), uses(leafCid('b'))]).toEqual([2, 1])
    })

    it('has whole content after another file brought the block again', () => {
      store.add(file)
      harm(leafCid('b'))
      const other = contentOfLeaves('bc')
      store.add(other)
      expect(store.read(other.cid)).toHaveLength(2 * LEAF_BYTES)
      expect(store.read(file.cid)).toHaveLength(3 * LEAF_BYTES)
    })
  })

  it('keeps a block that was lost and put back until its uses are counted anew', () => {
    const file = contentOfLeaves('aba')
    store.add(file)
    lose(leafCid('b'))
    store.repair(file)
    expect([uses(leafCid('a')), uses(leafCid('b')), uses(file.cid)]).toEqual([2, 1_000_000_000, 1])
    expect(store.remove(file.cid)).toBe(false)
    expect(blockCount()).toBe(1)
    expect(recountBlocks(database, "SELECT '' AS cid", false)).toEqual({ unused: 1, miscounted: 0, unreadable: 0 })
    expect(blockCount()).toBe(0)
  })

  it('repairs what is whole without changing a use', () => {
    const file = contentOfLeaves('aba')
    store.add(file)
    store.add(contentOfLeaves('bc'))
    store.repair(file)
    expect([uses(leafCid('a')), uses(leafCid('b')), uses(leafCid('c')), uses(file.cid)]).toEqual([2, 2, 1, 1])
  })
})
