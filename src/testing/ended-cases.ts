import type { EndedSession, NewSession } from '../ports.js'
import { MAX_SESSIONS_PER_DID } from '../protocol/session.js'
import { anotherService, createBoundedCase, createRotation, createSession, did, service } from './store-case.js'
import { START_SECONDS, type Bench, type StoreBounds, type StoreCase } from './store-case.js'

const LISTED_SECONDS = 660
const MANY = 1_000

/** Tests of the records of ended sessions. A store without `listEndedSessions` passes them. */
export const endedCases = [
  endedCase('lists the sessions that were logged out or revoked', async (bench) => {
    for (const name of ['a', 'b', 'c']) await bench.create(name)
    await end(bench, 'a', 1)
    await end(bench, 'b', 1, { state: 'revoked' })
    bench.expect(await listNames(bench), ['a', 'b'])
  }),
  endedCase('lists all sessions of a user that were revoked together', async (bench) => {
    for (const name of ['a', 'b']) await bench.create(name)
    await bench.create('other', { did: 'did:example:other' })
    await bench.store.revokeSessions(service, did, START_SECONDS + 1, START_SECONDS + LISTED_SECONDS)
    bench.expect(await listNames(bench), ['a', 'b'])
  }),
  endedCase('lists a session that was revoked because of a theft', async (bench) => {
    await bench.create('a')
    const listUntilSeconds = START_SECONDS + LISTED_SECONDS
    await bench.rotate('a', 0, 1, { listUntilSeconds })
    bench.expect(await listNames(bench), [], 'A rotation that succeeds records no end')
    const theft = createRotation('a', 0, 'x', { at: 60, listUntilSeconds })
    const verdicts = await bench.allAtOnce(10, (store) => store.rotateRefreshToken(theft))
    bench.expect(verdicts.filter((verdict) => verdict === 'reused').length, 1)
    bench.expect(await list(bench), [['a', 60]])
  }),
  endedCase('lists an active session that was dropped because its user has 50 others', async (bench) => {
    for (let index = 0; index <= MAX_SESSIONS_PER_DID; index += 1) await createListed(bench, String(index))
    bench.expect(await listNames(bench), ['0'])
  }),
  endedCase(
    'lists active sessions that were evicted, and no others',
    async (bench) => {
      await createStranger(bench, 'ended')
      await createStranger(bench, 'expired', { expiresAtSeconds: START_SECONDS + 5 })
      await bench.end('ended')
      const names = Array.from({ length: 9 }, (_, index) => String(index))
      for (const name of names) await createStranger(bench, name, { nowSeconds: START_SECONDS + 10 })
      const found = await Promise.all(names.map((name) => bench.find(name)))
      const evicted = names.filter((_, index) => found[index] === undefined)
      bench.expect(await listNames(bench), evicted)
    },
    { maxSessions: 6 }
  ),
  endedCase('lists no session that had ended or expired before', async (bench) => {
    for (const name of ['a', 'b']) await bench.create(name)
    await bench.create('brief', { until: 5 })
    await end(bench, 'a', 1)
    await end(bench, 'a', 2)
    await end(bench, 'a', 3, { state: 'revoked' })
    await bench.end('b')
    await end(bench, 'brief', 5)
    await end(bench, 'never created', 5)
    const [now, listUntil] = [START_SECONDS + 6, START_SECONDS + LISTED_SECONDS]
    await bench.store.revokeSessions(service, did, now, listUntil)
    await bench.store.rotateRefreshToken(createRotation('a', 0, 1, { at: 7, listUntilSeconds: listUntil }))
    for (let index = 0; index < MAX_SESSIONS_PER_DID; index += 1) await createListed(bench, String(index), 8)
    bench.expect(await list(bench), [['a', 1]])
  }),
  endedCase('lists an ended session even after it has deleted the session', async (bench) => {
    await bench.create('a')
    await end(bench, 'a', 1)
    for (let index = 0; index < MAX_SESSIONS_PER_DID; index += 1) await createListed(bench, String(index))
    bench.expect(await bench.find('a'), undefined)
    bench.expect(await list(bench), [['a', 1]])
  }),
  endedCase('lists ended sessions from a second on, in the order of their times', async (bench) => {
    for (const name of ['a', 'b', 'c', 'd']) await bench.create(name)
    // The clocks of instances differ, so ends do not arrive in the order of their times.
    for (const [name, at] of [['b', 20], ['c', 30], ['a', 10], ['d', 25]] as const) await end(bench, name, at) // prettier-ignore
    bench.expect(await list(bench, 10), [['a', 10], ['b', 20], ['d', 25], ['c', 30]]) // prettier-ignore
    bench.expect(await list(bench, 20), [['b', 20], ['d', 25], ['c', 30]]) // prettier-ignore
    bench.expect(await list(bench, 31), [])
  }),
  endedCase('ends a list with the full second in which it reaches its limit', async (bench) => {
    for (const [name, at] of [['a', 1], ['b', 2], ['c', 2], ['d', 2], ['e', 3]] as const) {
      await bench.create(name)
      await end(bench, name, at)
    } // prettier-ignore
    const listTimes = async (limit: number): Promise<number[]> => (await list(bench, 0, { limit })).map(([, at]) => at)
    bench.expect(await listTimes(1), [1])
    for (const limit of [2, 3, 4]) bench.expect(await listTimes(limit), [1, 2, 2, 2])
    for (const limit of [5, 6]) bench.expect(await listTimes(limit), [1, 2, 2, 2, 3])
  }),
  endedCase('lists the ended sessions of each service separately', async (bench) => {
    await bench.create('a')
    await bench.create('a', { service: anotherService })
    await bench.create('b', { service: anotherService })
    await end(bench, 'b', 1, { ofService: anotherService })
    await end(bench, 'a', 2)
    bench.expect(await list(bench), [['a', 2]])
    bench.expect(await list(bench, 0, { ofService: anotherService }), [['b', 1]])
  }),
  endedCase('records no end without a time until which to list it', async (bench) => {
    for (const name of ['a', 'b', 'c']) await bench.create(name)
    await bench.end('a')
    await bench.rotate('b', 0, 1)
    await bench.rotations(['b', 0, 'x', 'reused', { at: 60 }])
    await bench.revoke()
    for (let index = 0; index <= MAX_SESSIONS_PER_DID + 3; index += 1) await bench.create(String(index))
    bench.expect(await list(bench), [])
  }),
  endedCase('records one end of a session, even by 50 simultaneous calls', async (bench) => {
    await bench.create('a')
    const [now, listUntil] = [START_SECONDS + 1, START_SECONDS + LISTED_SECONDS]
    const answers = await bench.allAtOnce(50, async (store, index) =>
      index % 10 < 8
        ? Number(await store.endSession(service, 'session-a', 'loggedOut', now + (index % 3), listUntil))
        : store.revokeSessions(service, did, now, listUntil)
    )
    bench.expect(
      answers.reduce((sum, ended) => sum + ended, 0),
      1
    )
    bench.expect(await listNames(bench), ['a'])
  })
]

function endedCase(name: string, test: StoreCase['test'], bounds: StoreBounds = {}): StoreCase {
  return createBoundedCase(name, bounds, async (bench) => {
    if (bench.store.listEndedSessions !== undefined) await test(bench)
  })
}

/** Creates a session. If another is deleted for it, that end is recorded. */
function createListed({ create }: Bench, name: string, at = 0): Promise<number> {
  return create(name, { at, listUntilSeconds: START_SECONDS + LISTED_SECONDS })
}

/** Creates a session of a user who has no other. */
function createStranger({ store }: Bench, name: string, details: Partial<NewSession> = {}): Promise<number> {
  const listUntilSeconds = START_SECONDS + LISTED_SECONDS
  return store.createSession(createSession(name, { did: `did:example:${name}`, listUntilSeconds, ...details }))
}

/** Ends a session, and records it. */
function end(
  { store }: Bench,
  name: string,
  at: number,
  { state = 'loggedOut', ofService = service }: { state?: 'loggedOut' | 'revoked'; ofService?: string } = {}
): Promise<boolean> {
  const now = START_SECONDS + at
  return store.endSession(ofService, `session-${name}`, state, now, now + LISTED_SECONDS)
}

/** Lists names and times of ended sessions, from a number of seconds after the start. */
async function list(
  { other }: Bench,
  since = 0,
  { limit = MANY, ofService = service }: { limit?: number; ofService?: string } = {}
): Promise<[name: string, at: number][]> {
  const listed: EndedSession[] = (await other.listEndedSessions?.(ofService, START_SECONDS + since, limit)) ?? []
  return listed.map(({ sessionId, endedAtSeconds }) => [sessionId.slice(8), endedAtSeconds - START_SECONDS])
}

/** Lists the names of ended sessions in alphabetical order. */
async function listNames(bench: Bench): Promise<string[]> {
  return (await list(bench)).map(([name]) => name).sort()
}
