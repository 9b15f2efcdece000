import { beforeEach, describe, expect, it } from '@jest/globals'
import type { RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pureCurve } from '../../src/adapters/curve-pure.js'
import { EndedSessionReader } from '../../src/adapters/ended-session-reader.js'
import type { EndedSessionsOptions, Logger } from '../../src/ports.js'
import { computeSessionTag } from '../../src/protocol/ended-sessions.js'
import { forgeJwt } from '../protocol/forge-jwt.js'
import { afterTest } from '../support/fixtures/after-test.js'
import { START_SECONDS, TestClock } from '../support/fixtures/fixtures.js'
import { catchCode } from '../support/fixtures/refusal.js'
import { createHttpServer } from '../support/servers/http-server.js'

const issuer = 'did:web:a.example'
const audience = 'https://a.example'

let clock: TestClock
let url: string
/** Answer to each request for the list. */
let answer: RequestListener
let requestCount: number
let warnings: string[]
let reasons: unknown[]
/** Query of the last request for the list. */
let query: string | undefined
beforeEach(async () => {
  clock = new TestClock()
  requestCount = 0
  warnings = []
  reasons = []
  answer = answerList()
  const server = createHttpServer((req, res) => {
    requestCount += 1
    query = req.url?.split('?')[1]
    answer(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterTest(() => {
    server.close()
    server.closeAllConnections()
  })
  url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/list`
})

/** Answers a list with some sessions, which is valid now. */
function answerList(ended: readonly string[] = [], fields: object = {}): RequestListener {
  return (_req, res) => {
    const now = clock.seconds
    const times = { exp: now + 60, after: now - 660, until: now }
    const tags = ended.map((sessionId) => computeSessionTag(pureCurve, sessionId))
    const payload = { iss: issuer, aud: audience, ...times, more: false, ended: tags, ...fields }
    res.end(forgeJwt({ alg: 'ES256K', typ: 'ended-sessions+jwt' }, payload, () => new Uint8Array(64).fill(1)))
  }
}

const answerFailure: RequestListener = (_req, res) => void res.writeHead(500).end()

/** Creates a reader that accepts every signature, and returns the verdict on a session after a poll has ended. */
function createReader(options: EndedSessionsOptions = {}) {
  const findSource = async () => ({ url, issuers: [issuer], audience, findKeys: () => () => true })
  const warn = ({ reason }: { reason?: unknown }, message: string): void => {
    warnings.push(message)
    reasons.push(reason)
  }
  const logger = { warn } as Pick<Logger, 'warn'>
  const reader = new EndedSessionReader({ clock, logger, curve: pureCurve, findSource }, options)
  return async (sessionId: string | undefined, atSeconds = clock.seconds): Promise<unknown> => {
    clock.seconds = atSeconds
    const assertActive = async (): Promise<void> => reader.assertActive(sessionId, (work) => void polls.push(work))
    const polls: Promise<unknown>[] = []
    await catchCode(assertActive())
    await Promise.all(polls)
    return catchCode(assertActive())
  }
}

describe('EndedSessionReader', () => {
  it('counts a list as stale if the clock was set back by more than maxStaleSeconds', async () => {
    const read = createReader()
    expect(await read('a')).toBeUndefined()
    answer = answerFailure
    expect(await read('a', START_SECONDS - 30)).toBeUndefined()
    expect(await read('a', START_SECONDS - 31)).toBe('ERR_ENDED_SESSIONS')
  })

  it('renews a list by 304 at most until its exp', async () => {
    const read = createReader()
    const list = answerList([], { exp: START_SECONDS + 60, after: START_SECONDS - 660, until: START_SECONDS })
    answer = (req, res) => {
      if (req.headers['if-none-match'] === '"1"') res.writeHead(304).end()
      else list(req, res.setHeader('ETag', '"1"'))
    }
    for (const seconds of [0, 20, 40, 60, 80, 90]) expect(await read('a', START_SECONDS + seconds)).toBeUndefined()
    expect(await read('a', START_SECONDS + 92)).toBe('ERR_ENDED_SESSIONS')
  })

  it('keeps a session for at least the period of the first list, and at most for twice that period', async () => {
    const read = createReader()
    // The period of the first list is 660 s until now and 60 s until its exp.
    await read('a')
    await read('a', START_SECONDS + 360)
    answer = answerList(['a'])
    await read('a', START_SECONDS + 700)
    answer = answerList()
    for (const seconds of [720, 1_080, 1_438])
      expect(await read('a', START_SECONDS + seconds)).toBe('ERR_SESSION_ENDED')
    expect(await read('a', START_SECONDS + 1_440)).toBeUndefined()
  })

  it('accepts a token without a session while the list is unavailable, and requests no list for it', async () => {
    answer = answerFailure
    expect(await createReader()(undefined)).toBeUndefined()
    expect(requestCount).toBe(0)
  })

  it('warns once in each outage', async () => {
    const read = createReader({ whenStale: 'accept' })
    let at = START_SECONDS
    for (const outages of [1, 2]) {
      answer = answerList()
      await read('a', (at += 100))
      answer = answerFailure
      for (let count = 0; count < 3; count += 1) await read('a', (at += 100))
      expect(warnings).toHaveLength(outages)
    }
  })

  it('requests a list as soon as the last one is stale, even if pollSeconds is longer', async () => {
    const read = createReader({ pollSeconds: 600, maxStaleSeconds: 30 })
    await read('a')
    expect(await read('a', START_SECONDS + 29)).toBeUndefined()
    expect(requestCount).toBe(1)
    expect(await read('a', START_SECONDS + 31)).toBeUndefined()
    expect(requestCount).toBe(2)
  })

  it('accepts right lists at once after a publisher whose clock was ahead for one poll', async () => {
    const read = createReader()
    answer = answerList([], { until: START_SECONDS + 600 })
    await read('a')
    answer = answerList(['a'])
    expect(await read('a', START_SECONDS + 2)).toBe('ERR_SESSION_ENDED')
    expect(await read('b', START_SECONDS + 60)).toBeUndefined()
    expect(warnings).toEqual([])
  })

  it('asks for what ended after it read a list, also if that list ended in the future', async () => {
    const read = createReader()
    answer = answerList([], { until: START_SECONDS + 600 })
    await read('a')
    await read('a', START_SECONDS + 20)
    expect(query).toBe(`after=${String(START_SECONDS)}`)
    // After a long pause, the publisher has dropped what ended first.
    await read('a', START_SECONDS + 321)
    expect(query).toBeUndefined()
  })

  it('ignores a list from more than 660 s ahead, and warns once with both times', async () => {
    const read = createReader()
    const inFuture = (seconds: number): RequestListener => answerList(['a'], { until: clock.seconds + seconds })
    answer = inFuture(661)
    expect(await read('a')).toBe('ERR_ENDED_SESSIONS')
    answer = answerList()
    expect(await read('a', START_SECONDS + 2)).toBeUndefined()
    clock.seconds += 2
    answer = inFuture(661)
    await read('a')
    expect(warnings).toEqual(['a list of ended sessions from the future is ignored'])
    expect(reasons).toEqual([expect.stringMatching(`until ${String(START_SECONDS + 661)}.* ${String(START_SECONDS)}:`)])
    clock.seconds += 2
    answer = inFuture(660)
    expect(await read('a')).toBe('ERR_SESSION_ENDED')
  })
})
