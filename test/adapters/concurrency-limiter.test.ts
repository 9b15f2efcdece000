import { afterEach, beforeEach, describe, expect, it, jest } from '@jest/globals'
import { EventEmitter } from 'node:events'
import { ConcurrencyLimiter } from '../../src/adapters/concurrency-limiter.js'

const busy = expect.objectContaining({ code: 'ERR_BUSY' })

beforeEach(() => {
  jest.useFakeTimers()
})
afterEach(() => {
  jest.useRealTimers()
})

describe('ConcurrencyLimiter', () => {
  const limits = { maxRunning: 2, maxWaiting: 2, timeoutMilliseconds: 1_000 }

  /** A response whose client may disconnect. */
  const createResponse = () => Object.assign(new EventEmitter(), { destroyed: false })

  /** Work that ends when the test says so. */
  function createWork(started: string[], name: string) {
    let [resolve, reject] = [(_name: string): void => undefined, (_error: Error): void => undefined]
    const promise = new Promise<string>((onEnd, onFailure) => ([resolve, reject] = [onEnd, onFailure]))
    const run = (): Promise<string> => {
      started.push(name)
      return promise
    }
    return { run, end: () => resolve(name), fail: () => reject(new Error(name)) }
  }

  const settle = async (): Promise<void> => {
    await jest.advanceTimersByTimeAsync(0)
  }

  it('runs 2 tasks at once, queues 2 in order, and refuses the next', async () => {
    const started: string[] = []
    const limiter = new ConcurrencyLimiter(limits)
    const works = ['a', 'b', 'c', 'd'].map((name) => createWork(started, name))
    const results = works.map(({ run }) => limiter.run(createResponse(), run))
    await expect(limiter.run(createResponse(), createWork(started, 'e').run)).rejects.toEqual(busy)
    expect(started).toEqual(['a', 'b'])
    works[1]!.end()
    await settle()
    expect(started).toEqual(['a', 'b', 'c'])
    works[0]!.end()
    await settle()
    expect(started).toEqual(['a', 'b', 'c', 'd'])
    works[2]!.end()
    works[3]!.end()
    expect(await Promise.all(results)).toEqual(['a', 'b', 'c', 'd'])
  })

  it('runs the next task after one fails', async () => {
    const started: string[] = []
    const limiter = new ConcurrencyLimiter({ ...limits, maxRunning: 1 })
    const [first, second] = [createWork(started, 'a'), createWork(started, 'b')]
    const failing = expect(limiter.run(createResponse(), first.run)).rejects.toThrow('a')
    const waiting = limiter.run(createResponse(), second.run)
    first.fail()
    second.end()
    await failing
    expect(await waiting).toBe('b')
    expect(await limiter.run(createResponse(), async () => 'c')).toBe('c')
  })

  it('refuses a task that has waited for 1 s, and runs the others', async () => {
    const started: string[] = []
    const limiter = new ConcurrencyLimiter({ ...limits, maxRunning: 1 })
    const first = createWork(started, 'a')
    const running = limiter.run(createResponse(), first.run)
    const timedOut = expect(limiter.run(createResponse(), createWork(started, 'b').run)).rejects.toEqual(busy)
    await jest.advanceTimersByTimeAsync(999)
    const other = createWork(started, 'c')
    const waiting = limiter.run(createResponse(), other.run)
    await jest.advanceTimersByTimeAsync(1)
    await timedOut
    first.end()
    other.end()
    expect([await running, await waiting, started]).toEqual(['a', 'c', ['a', 'c']])
  })

  it('drops a waiting request whose client disconnects, and starts none that has disconnected', async () => {
    const started: string[] = []
    const limiter = new ConcurrencyLimiter({ ...limits, maxRunning: 1, maxWaiting: 1 })
    const first = createWork(started, 'a')
    const running = limiter.run(createResponse(), first.run)
    const disconnecting = createResponse()
    const dropped = expect(limiter.run(disconnecting, createWork(started, 'b').run)).rejects.toEqual(busy)
    disconnecting.emit('close')
    await dropped
    const other = createWork(started, 'c')
    const waiting = limiter.run(createResponse(), other.run)
    first.end()
    other.end()
    expect([await running, await waiting]).toEqual(['a', 'c'])
    const disconnected = Object.assign(createResponse(), { destroyed: true })
    await expect(limiter.run(disconnected, createWork(started, 'd').run)).rejects.toEqual(busy)
    expect(started).toEqual(['a', 'c'])
    expect(disconnecting.listenerCount('close')).toBe(0)
  })

  it('starts work with `isFirst` before other work of its network', async () => {
    const limiter = new ConcurrencyLimiter({ ...limits, maxRunning: 1 })
    const started: string[] = []
    const end = await limiter.acquire({ network: undefined })
    const wait = async (name: string, isFirst: boolean): Promise<void> => {
      const endWork = await limiter.acquire({ network: undefined, isFirst })
      started.push(name)
      endWork()
    }
    const waits = [wait('a', false), wait('b', true)]
    expect(limiter.size).toBe(3)
    end()
    await Promise.all(waits)
    expect([started, limiter.size]).toEqual([['b', 'a'], 0])
  })

  it('refuses with the error of `createError`, and after the timeout of the wait', async () => {
    const limiter = new ConcurrencyLimiter({ ...limits, maxRunning: 1, maxWaiting: 1, networkShare: 1 })
    const createError = (isTimeout: boolean): Error => new Error(isTimeout ? 'late' : 'full')
    const wait = () => limiter.acquire({ network: 'a', timeoutMilliseconds: 10, createError })
    const end = await wait()
    const late = expect(wait()).rejects.toThrow('late')
    await expect(wait()).rejects.toThrow('full')
    await jest.advanceTimersByTimeAsync(10)
    await late
    end()
    expect(limiter.size).toBe(0)
  })

  describe('client networks', () => {
    const bounds = { maxRunning: 4, maxWaiting: 8, timeoutMilliseconds: 1_000 }

    it('limits one network to a quarter of each bound, and still serves another network', async () => {
      const started: string[] = []
      const limiter = new ConcurrencyLimiter(bounds)
      const run = (name: string, network: string) =>
        limiter.run(createResponse(), createWork(started, name).run, network)
      for (const name of ['a1', 'a2', 'a3']) void run(name, 'a')
      await expect(run('a4', 'a')).rejects.toEqual(busy)
      void run('b1', 'b')
      await settle()
      expect(started).toEqual(['a1', 'b1'])
    })

    it('limits all networks of a /48 to half of each bound, and refuses the one of them with the most tasks', async () => {
      const started: string[] = []
      const limiter = new ConcurrencyLimiter({ ...bounds, maxRunning: 8 })
      const run = (name: string, number: number, site = 1) =>
        limiter.run(createResponse(), createWork(started, name).run, `2001:db8:${site}:${number}::/64`)
      // Two networks have their two turns each, and two tasks wait for a third network.
      for (const name of ['a1', 'a2']) void run(name, 1)
      for (const name of ['b1', 'b2']) void run(name, 2)
      const waiting = [run('c1', 3), run('c2', 3), run('a3', 1), run('b3', 2)]
      const last = run('d1', 4)
      await expect(waiting[1]).rejects.toEqual(busy)
      for (const name of ['o1', 'o2']) void run(name, 1, 2)
      await settle()
      expect([started, limiter.size]).toEqual([['a1', 'a2', 'b1', 'b2', 'o1', 'o2'], 10])
      void last
    })

    it('serves waiting networks in turn', async () => {
      const started: string[] = []
      const limiter = new ConcurrencyLimiter({ ...bounds, maxRunning: 1, maxWaiting: 16 })
      const works = ['a1', 'a2', 'a3', 'b1', 'a4', 'b2', 'c1'].map((name) => ({ name, ...createWork(started, name) }))
      const results = works.map(({ name, run }) => limiter.run(createResponse(), run, name[0]))
      for (const { end } of works) end()
      await Promise.all(results)
      expect(started).toEqual(['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4'])
    })

    it('refuses the newest task of the network with the most tasks if the queue is full', async () => {
      const started: string[] = []
      const limiter = new ConcurrencyLimiter({ ...bounds, maxRunning: 1 })
      const works = ['a1', 'b1', 'b2', 'c1', 'c2', 'd1', 'd2', 'e1', 'e2', 'f1'].map((name) =>
        createWork(started, name)
      )
      const results = works.map(({ run }, index) => limiter.run(createResponse(), run, 'abbccddeef'[index]))
      await expect(results[8]).rejects.toEqual(busy)
      for (const { end } of works) end()
      await Promise.all(results.toSpliced(8, 1))
      expect(started).toEqual(['a1', 'b1', 'c1', 'd1', 'e1', 'f1', 'b2', 'c2', 'd2'])
    })

    it('forgets a network that has no tasks left, even if its client has disconnected', async () => {
      const started: string[] = []
      const limiter = new ConcurrencyLimiter({ ...bounds, maxRunning: 1, maxWaiting: 4 })
      const first = createWork(started, 'a1')
      const running = limiter.run(createResponse(), first.run, 'a')
      const leaving = createResponse()
      const dropped = expect(limiter.run(leaving, createWork(started, 'b1').run, 'b')).rejects.toEqual(busy)
      leaving.emit('close')
      await dropped
      const second = createWork(started, 'b2')
      const waiting = limiter.run(createResponse(), second.run, 'b')
      first.end()
      second.end()
      expect([await running, await waiting]).toEqual(['a1', 'b2'])
    })
  })
})
