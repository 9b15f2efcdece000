import { describe, expect, it } from '@jest/globals'
import { SlowReaders } from '../../servers/relay/slow-readers.js'

/** Tells whether it was cut off. */
class TestReader {
  isCut = false
  destroy(): void {
    this.isCut = true
  }
}

const readersOf = (count: number) => Array.from({ length: count }, () => new TestReader())
const answersOf = (count: number) => Array.from({ length: count }, () => Buffer.alloc(100))
const cutOf = (readers: readonly TestReader[]) => readers.map(({ isCut }) => isCut)

describe('SlowReaders', () => {
  it('count an answer once memory has let go of it, once for all its readers, until the last has it', () => {
    const slow = new SlowReaders(1_000)
    const [answer, other] = [Buffer.alloc(100), Buffer.alloc(100)]
    const [first, second] = [new TestReader(), new TestReader()]
    slow.add(first, answer)
    slow.add(second, answer)
    expect(slow.bytes).toBe(0)
    slow.letGo(answer)
    slow.letGo(other)
    expect(slow.bytes).toBe(100)
    slow.remove(first, answer)
    expect(slow.bytes).toBe(100)
    slow.remove(second, answer)
    expect(slow.bytes).toBe(0)
  })

  it('count all the memory that an answer keeps alive', () => {
    const slow = new SlowReaders(1_000)
    const answer = Buffer.alloc(200).subarray(0, 100)
    slow.add(new TestReader(), answer)
    slow.letGo(answer)
    expect(slow.bytes).toBe(200)
  })

  it('are cut off above the bound: all of the file that memory let go of first', () => {
    const slow = new SlowReaders(200)
    const [first, second, third, fourth] = answersOf(4) as [Buffer, Buffer, Buffer, Buffer]
    const readers = readersOf(5)
    for (const [index, answer] of [second, first, first, third, fourth].entries()) slow.add(readers[index]!, answer)
    for (const answer of [first, second]) slow.letGo(answer)
    expect([slow.bytes, cutOf(readers)]).toEqual([200, [false, false, false, false, false]])
    slow.letGo(third)
    expect([slow.bytes, cutOf(readers)]).toEqual([200, [false, true, true, false, false]])
    // Their connections close later.
    slow.remove(readers[1]!, first)
    slow.remove(readers[2]!, first)
    expect(slow.bytes).toBe(200)
    slow.letGo(fourth)
    expect(cutOf(readers)).toEqual([true, true, true, false, false])
  })

  it('are never cut off of what is still in memory', () => {
    const slow = new SlowReaders(100)
    const answers = answersOf(50)
    const readers = readersOf(50)
    for (const [index, answer] of answers.entries()) slow.add(readers[index]!, answer)
    expect(cutOf(readers)).not.toContain(true)
    slow.letGo(Buffer.alloc(1_000))
    expect(cutOf(readers)).not.toContain(true)
  })

  it('keep 128 MiB alive by default', () => {
    const slow = new SlowReaders()
    const [first, second] = [Buffer.alloc(134_217_728), Buffer.alloc(1)]
    const readers = readersOf(2)
    slow.add(readers[0]!, first)
    slow.add(readers[1]!, second)
    slow.letGo(first)
    expect([slow.bytes, cutOf(readers)]).toEqual([134_217_728, [false, false]])
    slow.letGo(second)
    expect([slow.bytes, cutOf(readers)]).toEqual([1, [true, false]])
  })
})
