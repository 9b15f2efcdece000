import { describe, expect, it } from '@jest/globals'
import { EventLoopTurns } from '../../src/adapters/event-loop-turns.js'
import { refusal } from '../support/refusal.js'

const nextRound = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Takes turns numbered from `first`, and writes down which were given. */
function takeTurns(turns: EventLoopTurns, given: number[], count: number, first = 1): void {
  for (let number = first; number < first + count; number += 1) void turns.take().then(() => given.push(number))
}

describe('turns by rounds of the event loop', () => {
  it('are given two a round, to those who came first', async () => {
    const turns = new EventLoopTurns()
    const given: number[] = []
    takeTurns(turns, given, 5)
    await Promise.resolve()
    expect(given).toEqual([1, 2])
    await nextRound()
    expect(given).toEqual([1, 2, 3, 4])
    await nextRound()
    expect(given).toEqual([1, 2, 3, 4, 5])
  })

  it('are given to those who wait before those who come later', async () => {
    const turns = new EventLoopTurns()
    const given: number[] = []
    takeTurns(turns, given, 5)
    await nextRound()
    takeTurns(turns, given, 2, 6)
    await Promise.resolve()
    expect(given).toEqual([1, 2, 3, 4])
    await nextRound()
    expect(given).toEqual([1, 2, 3, 4, 5, 6])
    await nextRound()
    expect(given).toEqual([1, 2, 3, 4, 5, 6, 7])
  })

  it('are given at once again when nobody took one for a round', async () => {
    const turns = new EventLoopTurns()
    const given: number[] = []
    takeTurns(turns, given, 2)
    await nextRound()
    takeTurns(turns, given, 2, 3)
    await Promise.resolve()
    expect(given).toEqual([1, 2, 3, 4])
  })

  it('have 1,000 waiting for them at most: the next one is ERR_BUSY, to come again in 1 s', async () => {
    const turns = new EventLoopTurns()
    const given: number[] = []
    takeTurns(turns, given, 1_002)
    await expect(turns.take()).rejects.toEqual(refusal('ERR_BUSY'))
    await expect(turns.take()).rejects.toMatchObject({ retryAfterSeconds: 1 })
    await nextRound()
    takeTurns(turns, given, 2, 1_003)
    await expect(turns.take()).rejects.toEqual(refusal('ERR_BUSY'))
    for (let round = 0; round < 501; round += 1) await nextRound()
    expect(given).toEqual(Array.from({ length: 1_004 }, (_, index) => index + 1))
  })
})
