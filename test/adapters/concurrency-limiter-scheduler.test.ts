import { beforeEach, describe, expect, it } from '@jest/globals'
import { EventLoopScheduler } from '../../src/adapters/concurrency-limiter.js'
import type { Client } from '../../src/ports.js'
import { refusal } from '../support/fixtures/refusal.js'

const nextRound = () => new Promise<void>((resolve) => setImmediate(resolve))
const createClient = (network: string): Client => ({ network, isGone: () => false })

let scheduler: EventLoopScheduler
let given: string[]

beforeEach(() => {
  scheduler = new EventLoopScheduler()
  given = []
})

/** Schedules tasks numbered from `first`, and records in `given` which ran: `a1`, `a2`, … */
function yieldMany(
  count: number,
  { first = 1, network = 'a', priority }: { first?: number; network?: string; priority?: 'background' } = {}
): void {
  // Tasks that are still waiting at the end of a test must not count in the next test.
  const names = given
  for (let number = first; number < first + count; number += 1) {
    scheduler.yield(createClient(network), priority).then(
      () => names.push(`${network}${number}`),
      () => names.push(`${network}${number} refused`)
    )
  }
}

describe('EventLoopScheduler', () => {
  it('runs two tasks per round, in the order of arrival', async () => {
    yieldMany(5)
    await Promise.resolve()
    expect(given).toEqual(['a1', 'a2'])
    await nextRound()
    expect(given).toEqual(['a1', 'a2', 'a3', 'a4'])
    await nextRound()
    expect(given).toEqual(['a1', 'a2', 'a3', 'a4', 'a5'])
  })

  it('runs waiting tasks before newer ones', async () => {
    yieldMany(5)
    await nextRound()
    yieldMany(2, { first: 6 })
    await Promise.resolve()
    expect(given).toEqual(['a1', 'a2', 'a3', 'a4'])
    await nextRound()
    expect(given).toEqual(['a1', 'a2', 'a3', 'a4', 'a5', 'a6'])
    await nextRound()
    expect(given).toEqual(['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7'])
  })

  it('runs a task immediately after an idle round', async () => {
    yieldMany(2)
    await nextRound()
    yieldMany(2, { first: 3 })
    await Promise.resolve()
    expect(given).toEqual(['a1', 'a2', 'a3', 'a4'])
  })

  // Cause: 1,000 invalid proofs from one network were queued before a login that arrived a moment later.
  it('serves client networks round-robin: a flood from one network delays only itself', async () => {
    yieldMany(100)
    yieldMany(2, { network: 'b' })
    yieldMany(1, { network: 'c' })
    await nextRound()
    await nextRound()
    expect(given).toEqual(['a1', 'a2', 'a3', 'b1', 'c1', 'a4'])
    await nextRound()
    expect(given).toEqual(['a1', 'a2', 'a3', 'b1', 'c1', 'a4', 'b2', 'a5'])
  })

  // Cause: signatures that anyone can request without a proof were queued before logins.
  it('runs background tasks last, even those of a network that has waited longer', async () => {
    yieldMany(2)
    yieldMany(3, { network: 'b', priority: 'background' })
    yieldMany(3, { first: 3 })
    await nextRound()
    await nextRound()
    expect(given).toEqual(['a1', 'a2', 'a3', 'a4', 'a5', 'b1'])
    await nextRound()
    expect(given).toEqual(['a1', 'a2', 'a3', 'a4', 'a5', 'b1', 'b2', 'b3'])
  })

  it('runs a background task first in the eighth round, so that waiting logins never starve it', async () => {
    yieldMany(20)
    yieldMany(1, { network: 'b', priority: 'background' })
    for (let round = 0; round < 8; round += 1) await nextRound()
    expect(given.slice(14)).toEqual(['a15', 'a16', 'b1', 'a17'])
  })

  it('refuses with ERR_BUSY and retry after 1 s if 1,000 tasks of the same network wait', async () => {
    yieldMany(1_002)
    await expect(scheduler.yield(createClient('a'))).rejects.toEqual(refusal('ERR_BUSY'))
    await expect(scheduler.yield(createClient('a'))).rejects.toMatchObject({ retryAfterSeconds: 1 })
    await nextRound()
    yieldMany(2, { first: 1_003 })
    await expect(scheduler.yield(createClient('a'))).rejects.toEqual(refusal('ERR_BUSY'))
    for (let round = 0; round < 501; round += 1) await nextRound()
    expect(given).toEqual(Array.from({ length: 1_004 }, (_, index) => `a${index + 1}`))
  })

  it('refuses the newest task of the network with the most tasks if 1,000 wait', async () => {
    yieldMany(2)
    yieldMany(900, { first: 3 })
    yieldMany(100, { network: 'b' })
    yieldMany(1, { network: 'c' })
    await Promise.resolve()
    expect(given).toEqual(['a1', 'a2', 'a902 refused'])
    await nextRound()
    await nextRound()
    expect(given).toEqual(['a1', 'a2', 'a902 refused', 'a3', 'b1', 'c1', 'a4'])
  })

  it('counts background tasks separately: 1,000 of them cause no login to be refused', async () => {
    yieldMany(1_002, { network: 'b', priority: 'background' })
    yieldMany(1_000, { network: 'b', first: 1_003 })
    await Promise.resolve()
    expect(given).toEqual(['b1', 'b2'])
    await nextRound()
    expect(given).toEqual(['b1', 'b2', 'b1003', 'b1004'])
  })

  // Cause: recoveries of connections that were reset after their body stayed in the queue.
  it('refuses a task whose client has disconnected, and runs another in the same round', async () => {
    yieldMany(2)
    let isGone = false
    const refused = expect(scheduler.yield({ network: 'gone', isGone: () => isGone })).rejects.toEqual(
      refusal('ERR_BUSY')
    )
    yieldMany(2, { first: 3 })
    isGone = true
    await nextRound()
    await refused
    expect(given).toEqual(['a1', 'a2', 'a3', 'a4'])
  })

  it('refuses a client that has already disconnected, without using a slot of the round', async () => {
    for (let number = 0; number < 3; number += 1) {
      await expect(scheduler.yield({ network: 'gone', isGone: () => true })).rejects.toEqual(refusal('ERR_BUSY'))
    }
    yieldMany(2)
    await Promise.resolve()
    expect(given).toEqual(['a1', 'a2'])
  })
})
