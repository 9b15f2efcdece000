import { describe, expect, it } from '@jest/globals'
import express from 'express'
import request from 'supertest'
import { createClockCheck, createReadiness, createSteadyClock } from '../../../servers/observability/health-checks.js'

describe('GET /ready', () => {
  it('answers 503 as soon as the process begins to stop', async () => {
    const drain = new AbortController()
    const store = { name: 'store', isNeeded: true, check: async () => undefined }
    const app = express().get('/ready', createReadiness([store], { draining: drain.signal }).answer)
    const dependencies = { store: 'ok' }
    expect((await request(app).get('/ready').expect(200)).body).toEqual({ status: 'ready', dependencies })
    drain.abort()
    expect((await request(app).get('/ready').expect(503)).body).toEqual({ status: 'draining', dependencies })
  })

  it('answers 503 while the server starts, although its dependencies are available', async () => {
    const store = { name: 'store', isNeeded: true, check: async () => undefined }
    const app = express().get('/ready', createReadiness([store], { isStarting: true }).answer)
    const body = { status: 'starting', dependencies: { store: 'ok' } }
    expect((await request(app).get('/ready').expect(503)).body).toEqual(body)
  })

  it('says that a server drains that stops while it starts', async () => {
    const { answer } = createReadiness([], { isStarting: true, draining: AbortSignal.abort() })
    const { body } = await request(express().get('/ready', answer)).get('/ready').expect(503)
    expect(body).toEqual({ status: 'draining', dependencies: {} })
  })

  it('explains why a required dependency is unavailable, and reports it once', async () => {
    const reports: unknown[] = []
    const diskError = Object.assign(new Error('disk I/O'), { code: 'SQLITE_FULL' })
    const fail = async (): Promise<void> => Promise.reject(diskError)
    const dependencies = [
      { name: 'store', isNeeded: true, check: fail },
      { name: 'ipfs', isNeeded: false, check: fail }
    ]
    let milliseconds = 0
    const onNotReady = (reasons: unknown): void => void reports.push(reasons)
    const { answer } = createReadiness(dependencies, { onNotReady, nowMilliseconds: () => milliseconds })
    const app = express().get('/ready', answer)
    for (milliseconds of [0, 1_000]) {
      expect((await request(app).get('/ready').expect(503)).body).toEqual({
        status: 'not ready',
        dependencies: { store: 'unavailable', ipfs: 'unavailable' },
        reasons: { store: 'the disk is full' }
      })
    }
    expect(reports).toEqual([{ store: 'the disk is full' }])
  })

  it('answers 200 after the clock of a single server jumped, and says by how much', async () => {
    const check = async (): Promise<void> => Promise.reject(new Error('62 s ahead of the time that has passed'))
    const app = express().get(
      '/ready',
      createReadiness([{ name: 'clock', isNeeded: false, failure: 'jumped', check }]).answer
    )
    expect((await request(app).get('/ready').expect(200)).body).toEqual({
      status: 'ready',
      dependencies: { clock: 'jumped' },
      reasons: { clock: '62 s ahead of the time that has passed' }
    })
  })

  it('checks again after a 503 response, at most twice per second, although the last check passed', async () => {
    let milliseconds = 0
    let questions = 0
    const check = async (): Promise<void> => {
      questions += 1
      if (questions > 1) throw new Error('full')
    }
    const dependencies = [{ name: 'redis', isNeeded: true, freshMilliseconds: 5_000, check }]
    const { answer, checkAgain } = createReadiness(dependencies, { nowMilliseconds: () => milliseconds })
    const app = express()
    app.get('/ready', answer)
    await request(app).get('/ready').expect(200)
    milliseconds = 4_999
    await request(app).get('/ready').expect(200)
    checkAgain()
    await request(app).get('/ready').expect(503)
    milliseconds += 499
    checkAgain()
    await request(app).get('/ready').expect(503)
    expect(questions).toBe(2)
  })
})

describe('GET /ready of a dependency whose success is reused for 5 s', () => {
  it('checks it again 0.5 s after a failure', async () => {
    let [milliseconds, isBroken] = [0, true]
    const check = async (): Promise<void> => (isBroken ? Promise.reject(new Error('full')) : undefined)
    const dependencies = [{ name: 'store', isNeeded: true, freshMilliseconds: 5_000, check }]
    const { answer } = createReadiness(dependencies, { nowMilliseconds: () => milliseconds })
    const app = express().get('/ready', answer)
    await request(app).get('/ready').expect(503)
    isBroken = false
    milliseconds = 499
    await request(app).get('/ready').expect(503)
    milliseconds = 500
    await request(app).get('/ready').expect(200)
  })
})

describe('createClockCheck', () => {
  const check = (reference: number, times: number[] = [1_000, 1_000]): Promise<void> =>
    createClockCheck({ name: 'the database', read: () => Promise.resolve(reference) }, 10, () => times.shift() ?? NaN)()

  it('accepts the allowed difference', async () => {
    await check(990)
    await check(1_010)
  })

  it('reports a larger difference and its direction', async () => {
    await expect(check(938)).rejects.toThrow('62 s ahead of the database')
    await expect(check(1_011)).rejects.toThrow('11 s behind the database')
  })

  it('passes if the other clock cannot be read', () =>
    createClockCheck({ name: 'the database', read: () => Promise.reject(new Error('away')) }, 10)())

  it('does not mistake a slow response for a difference', async () => {
    await check(1_000, [1_000, 1_060])
    await check(1_060, [1_000, 1_060])
  })
})

describe('createSteadyClock', () =>
  it('reports a jump of the wall clock for at least ten minutes, and then accepts the new time', async () => {
    let [wall, steady] = [10_000, 0]
    const read = createSteadyClock(
      () => wall,
      () => steady
    )
    const check = createClockCheck({ name: 'the time that has passed', read }, 10, () => wall)
    const pass = (seconds: number): void => {
      wall += seconds
      steady += seconds
    }
    pass(30)
    await check()
    wall += 62
    await expect(check()).rejects.toThrow('62 s ahead of the time that has passed')
    pass(600)
    await expect(check()).rejects.toThrow('62 s ahead')
    pass(600)
    await check()
  }))
