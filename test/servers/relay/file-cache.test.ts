import { beforeEach, describe, expect, it } from '@jest/globals'
import { ENTRY_BYTES, FileCache } from '../../../servers/relay/file-cache.js'

const fileOf = (byteCount: number) => ({ answer: Buffer.alloc(byteCount), askedAtSeconds: 7 })

describe('FileCache', () => {
  let cache = new FileCache(1, 1)

  beforeEach(() => {
    cache = new FileCache(3 * (100 + ENTRY_BYTES), 250)
  })

  it('evicts the least recently read file when its bytes are used up', () => {
    for (const cid of ['a', 'b', 'c']) cache.set(cid, fileOf(100))
    cache.get('a')
    cache.set('d', fileOf(100))
    expect(['a', 'b', 'c', 'd'].map((cid) => cache.get(cid)?.answer.length)).toEqual([100, undefined, 100, 100])
  })

  it('counts 512 bytes beside each answer', () => {
    for (let index = 0; index < 10; index += 1) cache.set(String(index), fileOf(0))
    const kept = Array.from({ length: 10 }, (_, index) => cache.get(String(index))).filter(Boolean)
    expect(kept).toHaveLength(3)
  })

  it('keeps no file that is larger than itself', () => {
    cache.set('a', fileOf(2_000))
    expect(cache.get('a')).toBeUndefined()
  })

  it('replaces a file, and deletes it', () => {
    cache.set('a', fileOf(1))
    cache.set('a', fileOf(2))
    expect(cache.get('a')?.answer.length).toBe(2)
    cache.delete('a')
    expect(cache.get('a')).toBeUndefined()
  })

  it('lets 250 bytes of answers be sent at once, each answer counted once', () => {
    const [first, second, third] = [Buffer.alloc(150), Buffer.alloc(100), Buffer.alloc(1)]
    expect([first, first, second, third].map((answer) => cache.acquire(answer))).toEqual([true, true, true, false])
    cache.release(first)
    expect(cache.acquire(third)).toBe(false)
    cache.release(first)
    expect(cache.acquire(third)).toBe(true)
  })
})
