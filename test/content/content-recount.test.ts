import { describe, expect, it } from '@jest/globals'
import Database from 'better-sqlite3'
import { contentOf, type Content } from '../../servers/shared/content/content-blocks.js'
import { recountBlocks } from '../../servers/shared/content/content-recount.js'
import { ContentStore } from '../../servers/shared/content/content-store.js'

const ROOTS = 'SELECT cid FROM kept'
const single = contentOf(Buffer.from('one block'))
const tree = contentOf(Buffer.alloc(600_000, 'a tree.'))
/** The same block twice, and once on its own. */
const block = Buffer.alloc(262_144, 'b')
const twice = contentOf(Buffer.concat([block, block]))
const once = contentOf(block)

function kept(...contents: Content[]) {
  const database = new Database(':memory:')
  database.exec('CREATE TABLE kept (cid TEXT)')
  const store = new ContentStore(database)
  for (const content of contents) keep(content)
  function keep(content: Content): void {
    store.add(content)
    database.prepare('INSERT INTO kept VALUES (?)').run(content.cid)
  }
  function drop({ cid }: Content): void {
    store.remove(cid)
    database.prepare('DELETE FROM kept WHERE cid = ?').run(cid)
  }
  const uses = (cid: string) => database.prepare('SELECT uses FROM blocks WHERE cid = ?').pluck().get(cid)
  return { database, store, keep, drop, uses }
}

/** Lets something happen between the comparison and the repair, as another process would. */
function between(database: Database.Database, happen: () => void): Database.Database {
  const transaction = database.transaction.bind<typeof database.transaction>(database)
  let isFirst = true
  const watched = ((work: () => unknown) => {
    const real = transaction(work)
    if (!isFirst) return real
    isFirst = false
    return () => {
      const result = real()
      happen()
      return result
    }
  }) as typeof database.transaction
  return Object.assign(database, { transaction: watched })
}

const nothing = { unused: 0, miscounted: 0, unreadable: 0 }

describe('recountBlocks', () => {
  it('finds nothing wrong with single blocks, trees and blocks that are shared or occur twice', () => {
    const { database, uses } = kept(single, tree, twice, once)
    expect(recountBlocks(database, ROOTS, false)).toEqual(nothing)
    expect(uses(once.cid)).toBe(3)
  })

  it('removes what nothing uses and corrects what is counted wrong', () => {
    const { database, store, uses } = kept(twice, once)
    store.add(single)
    store.add(tree)
    database.prepare('UPDATE blocks SET uses = 1 WHERE cid = ?').run(once.cid)
    database.prepare('UPDATE blocks SET uses = 7 WHERE cid = ?').run(twice.cid)
    const found = { unused: 1 + tree.blocks.length, miscounted: 2, unreadable: 0 }
    expect(recountBlocks(database, ROOTS, true)).toEqual(found)
    expect(uses(single.cid)).toBe(1)
    expect(recountBlocks(database, ROOTS, false)).toEqual(found)
    expect([single, twice, once].map(({ cid }) => uses(cid))).toEqual([undefined, 1, 3])
    expect(recountBlocks(database, ROOTS, false)).toEqual(nothing)
  })

  it('removes nothing while a node above is lost or damaged', () => {
    const { database, store, uses } = kept(tree)
    store.add(single)
    for (const sql of ["UPDATE blocks SET bytes = x'00' WHERE cid = ?", 'DELETE FROM blocks WHERE cid = ?']) {
      database.prepare(sql).run(tree.cid)
      expect(recountBlocks(database, ROOTS, false)).toEqual({ unused: 0, miscounted: 0, unreadable: 1 })
    }
    expect(uses(single.cid)).toBe(1)
    expect(uses(tree.blocks[0]!.cid)).toBe(1)
  })

  it.each([
    ['lost', 'DELETE FROM blocks WHERE cid = ?'],
    ['damaged', "UPDATE blocks SET bytes = x'00' WHERE cid = ?"]
  ])('takes no use from a block that content with a %s node shares', (_what, sql) => {
    const other = contentOf(Buffer.concat([block, Buffer.from('other')]))
    const { database, store, drop, uses } = kept(twice, other)
    database.prepare(sql).run(other.cid)
    expect(recountBlocks(database, ROOTS, false)).toEqual({ ...nothing, unreadable: 1 })
    expect(uses(once.cid)).toBe(3)
    store.repair(other)
    drop(twice)
    expect(store.read(other.cid)).toHaveLength(262_149)
    recountBlocks(database, ROOTS, false)
    expect(other.blocks.map(({ cid }) => uses(cid))).toEqual([1, 1, 1])
  })

  it('adds missing uses also while a node above is lost', () => {
    const { database, uses } = kept(tree, twice)
    database.prepare('UPDATE blocks SET uses = 1 WHERE cid = ?').run(once.cid)
    database.prepare('DELETE FROM blocks WHERE cid = ?').run(tree.cid)
    expect(recountBlocks(database, ROOTS, false)).toEqual({ unused: 0, miscounted: 1, unreadable: 1 })
    expect(uses(once.cid)).toBe(2)
  })

  it('keeps what is written between comparison and repair', () => {
    const { database, store, keep, drop, uses } = kept(twice)
    store.add(single)
    store.add(once)
    recountBlocks(
      between(database, () => {
        keep(single)
        drop(twice)
        keep(tree)
      }),
      ROOTS,
      false
    )
    expect([single, twice, once, tree].map(({ cid }) => uses(cid))).toEqual([1, undefined, undefined, 1])
    expect(recountBlocks(database, ROOTS, false)).toEqual(nothing)
  })

  it('leaves no table of its own behind, also when it fails', () => {
    const { database } = kept(single)
    expect(() => recountBlocks(database, 'SELECT cid FROM nowhere', false)).toThrow('no such table')
    expect(recountBlocks(database, ROOTS, false)).toEqual(nothing)
    expect(database.prepare('SELECT name FROM temp.sqlite_master').all()).toEqual([])
  })
})
