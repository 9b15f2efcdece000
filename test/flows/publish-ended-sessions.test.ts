import { beforeEach, describe, expect, it } from '@jest/globals'
import { endSession } from '../../src/flows/end-session.js'
import { createRefreshToken } from '../../src/flows/tokens.js'
import { EndedSessionLists } from '../../src/flows/publish-ended-sessions.js'
import { computeSessionTag } from '../../src/protocol/ended-sessions.js'
import { EndedSessions } from '../../src/stores/memory/ended-sessions.js'
import { createNumberedWallet, serviceWallet, START_SECONDS } from '../support/fixtures/fixtures.js'
import { client, createFlowParts, decodePayload, SERVICE_URL, type FlowParts } from './flow-parts.js'

const wallet = createNumberedWallet(1)

let parts: FlowParts
let lists: EndedSessionLists
beforeEach(async () => {
  parts = await createFlowParts({ endedSessions: true })
  lists = new EndedSessionLists()
})

/** Payload of a list. */
interface Payload {
  iss: string
  aud: string
  iat: number
  exp: number
  after: number
  until: number
  more: boolean
  ended: string[]
}

const publish = (after: number | undefined) => lists.publish(parts, after, client)

const read = async (after?: number): Promise<Payload> => decodePayload((await publish(after)).jwt) as unknown as Payload

const tagOf = (id: string): string => computeSessionTag(parts.curve, id)

/** Creates a session of a user of its own and ends it. */
async function endNewSession(id: string, atSeconds = parts.clock.seconds): Promise<void> {
  const now = parts.clock.seconds
  const { hash: refreshTokenHash } = createRefreshToken(parts, { sessionId: id, createdAtSeconds: now }, now)
  const session = { service: SERVICE_URL, sessionId: id, did: `${wallet.did}${id}`, refreshTokenHash }
  await parts.store.createSession({
    ...session,
    tokenClaims: undefined,
    nowSeconds: now,
    expiresAtSeconds: now + 86_400
  })
  parts.clock.seconds = atSeconds
  await endSession(parts, id, 'loggedOut')
  parts.clock.seconds = now
}

/** Adds many sessions to the list of a memory store, which need not be opened and ended one by one. */
function addEndedSessions(count: number, endedAt: (number: number) => number): void {
  const ended = new EndedSessions(Infinity)
  for (let number = 0; number < count; number += 1) ended.add(`s${number}`, endedAt(number), Infinity, 0)
  parts.store.listEndedSessions = async (_service, sinceSeconds, limit) => ended.list(sinceSeconds, limit)
}

describe('EndedSessionLists', () => {
  it('signs a list of the sessions that ended within the longest life of a token and 60 s', async () => {
    await endNewSession('a')
    const { jwt, etag } = await publish(undefined)
    const [header = ''] = jwt.split('.')
    expect(JSON.parse(Buffer.from(header, 'base64url').toString())).toEqual({
      alg: 'ES256K',
      typ: 'ended-sessions+jwt'
    })
    expect(await read()).toEqual({
      iss: serviceWallet.did,
      aud: SERVICE_URL,
      iat: START_SECONDS,
      exp: START_SECONDS + 60,
      after: START_SECONDS - 660,
      until: START_SECONDS,
      more: false,
      ended: [tagOf('a')]
    })
    expect(etag).toMatch(/^"[\w-]{16}"$/)
  })

  it('drops a session 660 s after its end', async () => {
    await endNewSession('a')
    parts.clock.seconds += 659
    expect((await read()).ended).toEqual([tagOf('a')])
    parts.clock.seconds += 61
    expect((await read()).ended).toEqual([])
  })

  it('begins 30 s before `after`, rounded down to a minute, so that late writes are listed', async () => {
    await endNewSession('early', START_SECONDS - 31)
    await endNewSession('late', START_SECONDS - 30)
    expect(await read(START_SECONDS + 59)).toMatchObject({ after: START_SECONDS - 30, ended: [tagOf('late')] })
  })

  it('begins earlier with a longer refreshReuseGraceSeconds', async () => {
    parts = await createFlowParts({ endedSessions: true, refreshReuseGraceSeconds: 45 })
    expect(await read(START_SECONDS)).toMatchObject({ after: START_SECONDS - 65 })
  })

  it('returns the whole list for a time that is too early, and the newest for one in the future', async () => {
    expect(await read(0)).toMatchObject({ after: START_SECONDS - 660 })
    expect(await read(START_SECONDS + 1e9)).toMatchObject({ after: START_SECONDS - 30 })
  })

  it('reads and signs a list once per second, for any number of requests', async () => {
    parts.steps.length = 0
    await Promise.all(Array.from({ length: 50 }, (_, number) => publish(START_SECONDS + (number % 60))))
    expect(parts.steps.filter((step) => step === 'sign')).toHaveLength(1)
  })

  it('signs for 900 made-up times at most one list per minute of the whole list', async () => {
    parts.steps.length = 0
    for (let number = 0; number < 900; number += 1) await publish(START_SECONDS - number)
    expect(parts.steps.filter((step) => step === 'sign').length).toBeLessThanOrEqual(13)
  })

  it('returns an unchanged list for 20 s, and then signs it again', async () => {
    const first = await publish(START_SECONDS)
    parts.clock.seconds += 19
    expect(await publish(START_SECONDS)).toBe(await publish(START_SECONDS))
    expect((await publish(START_SECONDS)).etag).toBe(first.etag)
    parts.clock.seconds += 1
    expect((await publish(START_SECONDS)).etag).not.toBe(first.etag)
  })

  it('lists a session one second after its end', async () => {
    await read()
    await endNewSession('a')
    expect((await read()).ended).toEqual([])
    parts.clock.seconds += 1
    expect((await read()).ended).toEqual([tagOf('a')])
  })

  it('returns all of 25,000 sessions that ended in one minute, in several lists', async () => {
    addEndedSessions(25_000, (number) => START_SECONDS - 100 + Math.floor(number / 416))
    const ended = new Set<string>()
    let after: number | undefined
    let count = 0
    for (let more = true; more; count += 1) {
      const list = await read(after)
      expect(list.ended.length).toBeLessThan(10_500)
      for (const tag of list.ended) ended.add(tag)
      expect(after === undefined || !list.more || list.until > after).toBe(true)
      ;({ more, until: after } = list)
    }
    expect([ended.size, count < 10]).toEqual([25_000, true])
  })

  it('returns what ended after 10,100 sessions of one second', async () => {
    addEndedSessions(10_101, (number) => START_SECONDS - (number < 10_100 ? 20 : 10))
    const ended: string[] = []
    let after: number | undefined
    for (let count = 0; count < 5 && !ended.includes(tagOf('s10100')); count += 1) {
      const list = await read(after)
      ended.push(...list.ended)
      after = list.until
    }
    expect(ended).toContain(tagOf('s10100'))
  })

  it('returns the rest of the whole list if the first part ends before what is still listed', async () => {
    addEndedSessions(12_000, (number) => START_SECONDS + (number % 12))
    parts.clock.seconds += 719
    const first = await read()
    const second = await read(first.until)
    expect([first.more, second.until > first.until]).toEqual([true, true])
  })

  it('signs no list for each time in the future, however many sessions ended', async () => {
    addEndedSessions(10_100, () => START_SECONDS)
    parts.steps.length = 0
    for (let number = 1; number < 300; number += 1) await publish(START_SECONDS + 1_000 * number)
    expect(parts.steps.filter((step) => step === 'sign').length).toBeLessThanOrEqual(2)
  })

  it('reads the store once per second for all times, and only what may be new', async () => {
    addEndedSessions(5_000, (number) => START_SECONDS - 1 - (number % 600))
    const { listEndedSessions } = parts.store
    const reads: number[] = []
    parts.store.listEndedSessions = (service, sinceSeconds, limit) => {
      reads.push(sinceSeconds)
      return listEndedSessions!(service, sinceSeconds, limit)
    }
    const times = [undefined, 0, ...Array.from({ length: 60 }, (_, number) => START_SECONDS - 11 * number)]
    for (const seconds of [0, 1, 4]) {
      parts.clock.seconds = START_SECONDS + seconds
      const sizes = (await Promise.all(times.map(read))).map(({ ended }) => ended.length)
      expect([sizes[0], sizes[1], Number(sizes[2]) < 1_000]).toEqual([5_000, 5_000, true])
    }
    expect(reads).toEqual([START_SECONDS - 660, START_SECONDS - 30, START_SECONDS + 1 - 30])
  })

  it('reads everything again after the clock was set back, and signs a list with the right time', async () => {
    parts.clock.seconds += 1_000
    await read(parts.clock.seconds)
    parts.clock.seconds = START_SECONDS
    await endNewSession('a')
    expect(await read(START_SECONDS)).toMatchObject({ until: START_SECONDS, ended: [tagOf('a')] })
    lists = new EndedSessionLists()
    await read(START_SECONDS)
    parts.clock.seconds -= 30
    expect(await read(parts.clock.seconds)).toMatchObject({ until: START_SECONDS - 30 })
  })

  it.each([
    [undefined, 1],
    [START_SECONDS - 61, 1],
    [START_SECONDS - 60, 0],
    [START_SECONDS, 0],
    [START_SECONDS + 1_000, 0]
  ])(
    'charges the budget of reads for old lists, not for readers that poll: after %p %d times',
    async (after, count) => {
      await publish(after)
      expect(parts.charges).toEqual(Array(count).fill(['reads 192.0.2.1', 20]))
    }
  )

  it('rejects if the store fails, and reads it again for the next request', async () => {
    const { listEndedSessions } = parts.store
    parts.store.listEndedSessions = () => Promise.reject(new Error('unavailable'))
    await expect(read()).rejects.toThrow('unavailable')
    parts.store.listEndedSessions = listEndedSessions!
    await expect(read()).resolves.toMatchObject({ ended: [] })
  })
})
