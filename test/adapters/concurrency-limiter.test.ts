import { describe, expect, it } from '@jest/globals'
import { ConcurrencyLimiter } from '../../src/adapters/concurrency-limiter.js'
import type { Client } from '../../src/ports.js'
import { refusal } from '../support/refusal.js'

const round = (): Promise<void> => new Promise(setImmediate)

/** A limiter, and the work that it started: each ends when the test says. */
function limited(maxRunning: number, maxWaiting: number) {
  const limiter = new ConcurrencyLimiter({ maxRunning, maxWaiting })
  const started: string[] = []
  const ends: (() => void)[] = []
  const run = (name: string, client: Partial<Client> = {}): Promise<string> =>
    limiter.run({ network: name, isGone: () => false, ...client }, async () => {
      started.push(name)
      await new Promise<void>((resolve) => ends.push(resolve))
      return name
    })
  return { run, started, ends }
}

describe('ConcurrencyLimiter', () => {
  it('runs 2 at once, the others when one has ended, and a newcomer after those that wait', async () => {
    const { run, started, ends } = limited(2, 2)
    const all = Promise.all(['a', 'b', 'c'].map((name) => run(name)))
    await round()
    expect(started).toEqual(['a', 'b'])
    ends[0]!()
    const newcomer = run('d')
    await round()
    expect(started).toEqual(['a', 'b', 'c'])
    ends[1]!()
    await round()
    ends.slice(2).forEach((end) => {
      end()
    })
    await expect(all).resolves.toEqual(['a', 'b', 'c'])
    await expect(newcomer).resolves.toBe('d')
  })

  it('refuses the newest of the network that has the most when more than 2 wait', async () => {
    const { run, ends } = limited(1, 2)
    const running = run('a')
    const flood = [run('b', { network: 'flood' }), run('c', { network: 'flood' })]
    const other = run('d', { network: 'other' })
    await expect(flood[1]).rejects.toEqual(refusal('ERR_BUSY'))
    for (let index = 0; index < 3; index += 1) {
      await round()
      ends[index]!()
    }
    await expect(Promise.all([running, flood[0], other])).resolves.toEqual(['a', 'b', 'd'])
  })

  it('passes over clients that are gone, and goes on after work that failed', async () => {
    const limiter = new ConcurrencyLimiter({ maxRunning: 1, maxWaiting: 2 })
    const client = { network: 'a', isGone: () => false }
    const failed = limiter.run(client, () => Promise.reject(new Error('broken')))
    const gone = limiter.run({ network: 'b', isGone: () => true }, async () => 'never')
    const next = limiter.run({ network: 'c', isGone: () => false }, async () => 'next')
    await expect(failed).rejects.toThrow('broken')
    await expect(gone).rejects.toEqual(refusal('ERR_BUSY'))
    await expect(next).resolves.toBe('next')
    await expect(limiter.run(client, async () => 'later')).resolves.toBe('later')
  })
})
