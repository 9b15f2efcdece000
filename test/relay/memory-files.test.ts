import { describe, expect, it } from '@jest/globals'
import { MemoryFiles } from '../../servers/relay/memory-files.js'

const fileOf = (cid: string, byteCount: number) => ({ cid, byteCount, answer: Buffer.alloc(byteCount, cid) })

describe('MemoryFiles', () => {
  it('drops what has ended, and frees it for its holders', () => {
    const files = new MemoryFiles({ maxBytes: 1_000_000, ttlSeconds: 10 })
    files.keep(fileOf('a', 100), 'did:1', 0)
    files.keep(fileOf('a', 100), 'did:2', 5)
    files.keep(fileOf('b', 50), 'did:1', 6)
    expect([files.heldBytes('did:1', 'c', 14), files.heldBytes('did:2', 'c', 14)]).toEqual([150, 100])
    expect([files.heldBytes('did:1', 'c', 15), files.heldBytes('did:2', 'c', 15)]).toEqual([50, 0])
    expect(files.has('a')).toBe(false)
    expect(files.heldBytes('did:1', 'c', 16)).toBe(0)
  })

  it('frees what has ended also behind a file whose time began anew', () => {
    const files = new MemoryFiles({ maxBytes: 1_000_000, ttlSeconds: 10 })
    files.keep(fileOf('a', 100), 'did:1', 0)
    files.keep(fileOf('b', 50), 'did:1', 1)
    files.keep(fileOf('a', 100), 'did:1', 5)
    expect(files.heldBytes('did:1', 'c', 11)).toBe(100)
  })

  it('frees what has ended also behind what was posted while it came back', () => {
    const files = new MemoryFiles({ maxBytes: 1_000_000, ttlSeconds: 10 })
    files.keep(fileOf('a', 10), undefined, 1)
    files.keep(fileOf('b', 10), 'did:1', 9)
    files.keep(fileOf('c', 10), undefined, 2)
    files.keep(fileOf('d', 10), undefined, 3)
    files.keep(fileOf('d', 10), 'did:1', 10)
    files.dropEnded(12)
    expect(['a', 'b', 'c', 'd'].map((cid) => files.has(cid))).toEqual([false, true, false, true])
    files.dropEnded(19)
    expect(['b', 'd'].map((cid) => files.has(cid))).toEqual([false, true])
    files.dropEnded(20)
    expect(files.has('d')).toBe(false)
  })

  it('frees what had to go for its holders', () => {
    const files = new MemoryFiles({ maxBytes: 30_000, ttlSeconds: 10 })
    files.keep(fileOf('a', 10_000), 'did:1', 0)
    files.keep(fileOf('b', 10_000), 'did:2', 0)
    expect(files.find('a', 1)).toBeDefined()
    files.keep(fileOf('c', 10_000), 'did:2', 0)
    expect([files.has('a'), files.has('b'), files.has('c')]).toEqual([true, false, true])
    expect([files.heldBytes('did:1', '', 1), files.heldBytes('did:2', '', 1)]).toEqual([10_000, 10_000])
  })

  it('does not count the file that is about to be posted once more', () => {
    const files = new MemoryFiles({ maxBytes: 30_000, ttlSeconds: 10 })
    files.keep(fileOf('a', 100), 'did:1', 0)
    files.keep(fileOf('b', 10), 'did:1', 0)
    expect(files.heldBytes('did:1', 'a', 1)).toBe(10)
    expect(files.heldBytes('did:2', 'a', 1)).toBe(0)
  })

  it('stays within its bytes, those of its holders included, and ends empty', () => {
    const files = new MemoryFiles({ maxBytes: 100_000, ttlSeconds: 10 })
    for (let round = 0; round < 2_000; round += 1) {
      files.keep(fileOf(`file ${round % 130}`, 1_000), `did:${round % 170}`, Math.floor(round / 100))
    }
    const kept = Array.from({ length: 130 }, (_, index) => files.has(`file ${index}`)).filter(Boolean)
    expect(kept.length).toBeGreaterThan(30)
    expect(kept.length * 2_000).toBeLessThan(100_000)
    files.dropEnded(100)
    const held = Array.from({ length: 170 }, (_, index) => files.heldBytes(`did:${index}`, '', 100))
    expect(held).toEqual(Array<number>(170).fill(0))
  })

  it('tells of each answer that goes, and keeps the one that is there when a file is posted once more', () => {
    const gone: Buffer[] = []
    const files = new MemoryFiles({ maxBytes: 30_000, ttlSeconds: 10, onGone: (answer) => gone.push(answer) })
    const [first, again, ...others] = ['a', 'a', 'b', 'c', 'd'].map((cid) => fileOf(cid, 10_000))
    files.keep(first!, 'did:1', 0)
    files.keep(again!, 'did:1', 1)
    expect(files.find('a', 10) === first!.answer).toBe(true)
    expect(gone).toEqual([])
    for (const file of others) files.keep(file, 'did:1', 5)
    expect(gone.map((answer) => answer.toString('utf8', 0, 1))).toEqual(['a', 'b'])
    expect(gone[0] === first!.answer).toBe(true)
    files.dropEnded(15)
    expect(gone.map((answer) => answer.toString('utf8', 0, 1))).toEqual(['a', 'b', 'c', 'd'])
  })

  it('drops in the order of their ends also what came back before its turn', () => {
    const files = new MemoryFiles({ maxBytes: 1_000_000, ttlSeconds: 10 })
    files.keep(fileOf('late', 10), undefined, 5)
    files.keep(fileOf('early', 10), undefined, 1)
    expect([files.takeTurn('late'), files.takeTurn('unknown')]).toEqual([true, false])
    files.dropEnded(11)
    expect([files.has('early'), files.has('late')]).toEqual([false, true])
    files.dropEnded(15)
    expect(files.has('late')).toBe(false)
  })

  it('knows what cannot fit', () => {
    const files = new MemoryFiles({ maxBytes: 20_000, ttlSeconds: 10 })
    expect(files.canHold(fileOf('a', 10_000))).toBe(true)
    expect(files.canHold(fileOf('a', 11_000))).toBe(false)
    // A slice keeps all of its memory alive.
    expect(files.canHold({ answer: Buffer.alloc(11_000).subarray(0, 10) })).toBe(false)
  })
})
