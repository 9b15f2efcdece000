import type { NewSession } from '../ports.js'
import { MAX_SESSIONS_PER_DID } from '../protocol/session.js'
import { anotherDid, anotherService, did, service, START_SECONDS } from './store-case.js'
import { createBoundedCase, toFields, hashToken, createSession, storeCase, tamper, type Bench } from './store-case.js'

const COUNTS_EVICTED = 'Creating a session returns the number of active sessions that were evicted for it'

/** Tests of creating, finding, listing and ending sessions, of the maximum per user, and of eviction. */
export const sessionCases = [
  storeCase('answers a ping', async ({ store, other }) => {
    await store.ping()
    await other.ping()
  }),
  storeCase('finds a new session by its id, with the hash of its refresh token', async ({ create, read, expect }) => {
    await create('a')
    expect(await read('a'), {
      sessionId: 'session-a',
      did,
      state: 'active',
      tokenClaims: undefined,
      createdAtSeconds: START_SECONDS,
      rotatedAtSeconds: START_SECONDS,
      expiresAtSeconds: START_SECONDS + 3600,
      refreshTokenHash: hashToken('a', 0),
      replacedTokens: []
    })
    expect(await read('b'), undefined, 'A session that was never created is undefined')
  }),
  storeCase('stores the DID as received, and finds the user by its lower-case spelling', async (bench) => {
    const received = 'did:ethr:rsk:0x00000000000000000000000000000000000000Aa'
    await bench.create('a', { did: received })
    await bench.create('b')
    bench.expect((await bench.find('a'))?.did, received)
    const listed = (await bench.store.listSessions(service, did, START_SECONDS)).map((session) => session.did)
    bench.expect(listed, [did, received], 'All spellings of a DID are one user, whose sessions are listed together')
    bench.expect(await bench.revoke(), 2, 'All spellings of a DID are one user, whose sessions are revoked together')
  }),
  storeCase('returns token claims as they were stored', async ({ store, create, find, expect }) => {
    const tokenClaims = { role: 'admin', nested: [1, 0.5, null, true, { 'ключ "\u0000': '💶' }], constructor: '' }
    await create('a', { tokenClaims })
    await create('b', { tokenClaims: {} })
    expect((await find('a'))?.tokenClaims, tokenClaims)
    const listed = (await store.listSessions(service, did, START_SECONDS)).map(({ tokenClaims }) => tokenClaims)
    expect(listed, [{}, tokenClaims])
  }),
  storeCase('stores and returns copies, so that callers cannot change its data', async (bench) => {
    const created = createSession('a', { tokenClaims: { roles: ['reader'] } })
    await bench.store.createSession(created)
    await bench.rotate('a', 0, 1, { tokenClaims: { roles: ['reader'] } })
    const before = await bench.read('a')
    tamper(created.tokenClaims, { roles: ['admin'] })
    tamper(created, { did: anotherDid })
    const session = await bench.store.findSession(service, 'session-a')
    tamper(session?.tokenClaims, { roles: ['admin'] })
    tamper(session?.replacedTokens[0], { hash: 'x', replacedAtSeconds: 0 })
    tamper(session?.replacedTokens, { length: 0 })
    tamper(session, { state: 'revoked', refreshTokenHash: 'x', replacedTokens: [] })
    const [listed] = await bench.store.listSessions(service, did, START_SECONDS)
    tamper(listed?.tokenClaims, { roles: ['admin'] })
    tamper(listed, { state: 'revoked', expiresAtSeconds: 0 })
    bench.expect([await bench.read('a'), await bench.read('a')], [before, before])
  }),
  storeCase('lists a session with its description, also after a refresh, or with none', async (bench) => {
    const description = 'Chrome "\\" auf Größe 💶'
    await bench.create('a', { description })
    await bench.create('b')
    await bench.rotate('a', 0, 1)
    const [other, listed] = await bench.store.listSessions(service, did, START_SECONDS + 10)
    const stored = await bench.find('a')
    const descriptions = { listed: listed?.description, stored: stored?.description, other: other?.description }
    // A store may store no descriptions. Then no session has one.
    const isStored = descriptions.listed !== undefined
    bench.expect(descriptions, isStored ? { listed: description, stored: description } : {})
  }),
  storeCase('stores times of more than 32 bits', async ({ create, find, expect }) => {
    await create('a', { until: 3_600_000_000_000 })
    expect((await find('a'))?.expiresAtSeconds, START_SECONDS + 3_600_000_000_000)
  }),
  storeCase('separates the sessions of services, even with the same ids and tokens', async (bench) => {
    const inAnother = { service: anotherService }
    await bench.create('a')
    const seen = {
      found: await bench.find('a', anotherService),
      rotated: await bench.rotate('a', 0, 1, inAnother),
      ended: await bench.store.endSession(anotherService, 'session-a', 'loggedOut', START_SECONDS),
      revoked: await bench.revoke(0, anotherService),
      listed: (await bench.store.listSessions(anotherService, did, START_SECONDS)).length
    }
    bench.expect(seen, { found: undefined, rotated: 'unknown', ended: false, revoked: 0, listed: 0 })
    await bench.create('a', inAnother)
    await bench.rotations(['a', 0, 1, 'rotate'], ['a', 0, 1, 'rotate', inAnother])
    await bench.end('a')
    bench.expect((await bench.find('a', anotherService))?.state, 'active')
  }),
  storeCase("lists a user's active sessions, the newest first, until they expire", async (bench) => {
    for (const name of ['a', 'b', 'c']) await bench.create(name)
    await bench.create('brief', { until: 5 })
    await bench.create('d', { at: 1 })
    await bench.create('e', { did: anotherDid })
    await bench.end('b')
    await bench.rotate('a', 0, 1, { at: 3, until: 3600 })
    bench.expect(await bench.list(4), ['d', 'brief', 'c', 'a'])
    const promise = 'A session is listed up to the second before it expires'
    for (const at of [5, 3599]) bench.expect(await bench.list(at), ['d', 'c', 'a'], promise)
    bench.expect(await bench.list(3600), [], promise)
  }),
  storeCase('lists sessions with the same fields as it finds them', async (bench) => {
    await bench.create('a', { tokenClaims: { role: 'admin' } })
    await bench.rotate('a', 0, 1, { tokenClaims: { role: 'reader' } })
    const [listed] = await bench.other.listSessions(service, did, START_SECONDS + 10)
    bench.expect(toFields(listed), toFields(await bench.find('a')))
  }),
  storeCase(
    'ends an active session once, and never changes its state again',
    async ({ create, end, stateOf, expect }) => {
      await create('a')
      await create('b')
      const answers = [await end('a'), await end('a', 'revoked'), await end('b', 'revoked'), await end('c')]
      expect(answers, [true, false, true, false])
      const kept = 'A session that ended is still found, in the state it ended in first'
      expect([await stateOf('a'), await stateOf('b')], ['loggedOut', 'revoked'], kept)
    }
  ),
  storeCase('ends a session until the second in which it expires', async ({ create, end, expect }) => {
    await create('a')
    await create('b')
    expect([await end('a', 'loggedOut', 3599), await end('b', 'loggedOut', 3600)], [true, false])
  }),
  storeCase('ends a session once, even by 50 simultaneous calls', async ({ create, allAtOnce, expect }) => {
    await create('a')
    const ended = await allAtOnce(50, (store) => store.endSession(service, 'session-a', 'loggedOut', START_SECONDS))
    expect(ended.filter(Boolean).length, 1)
  }),
  storeCase("revokes a user's active sessions and counts them", async ({ create, end, revoke, stateOf, expect }) => {
    for (const name of ['a', 'b', 'c']) await create(name)
    await create('brief', { until: 5 })
    await create('d', { did: anotherDid })
    await end('a')
    expect([await revoke(5), await revoke(5)], [2, 0])
    const states = await Promise.all(['a', 'b', 'c', 'd'].map(stateOf))
    expect(states, ['loggedOut', 'revoked', 'revoked', 'active'], "Revoking changes only a user's active sessions")
  }),

  storeCase('stores 50 sessions of a user, and deletes the oldest when another is added', async (bench) => {
    await bench.create('other user', { did: anotherDid })
    await bench.create('other service', { service: anotherService })
    const names = listNames(MAX_SESSIONS_PER_DID + 1)
    let evicted = 0
    for (const name of names) {
      evicted += await bench.create(name)
      if (name === '0') await bench.rotate('0', 0, 1)
    }
    bench.expect(await bench.list(), names.slice(1).reverse())
    bench.expect(await bench.find('0'), undefined)
    await bench.rotations(['0', 0, 2, 'unknown'], ['0', 1, 2, 'unknown'])
    bench.expect(evicted, 0, "A user's own sessions that are dropped beyond 50 do not count as evicted")
    const others = [
      (await bench.store.listSessions(service, anotherDid, START_SECONDS)).length,
      (await bench.store.listSessions(anotherService, did, START_SECONDS)).length
    ]
    bench.expect(others, [1, 1], 'The bound of 50 drops no session of another user or service')
  }),
  storeCase('drops no active session of a user while there are expired or ended ones to drop', async (bench) => {
    // Add expired sessions of other users, which a store may delete first.
    for (const name of listNames(2 * MAX_SESSIONS_PER_DID)) {
      await bench.create(`brief ${name}`, { did: `did:example:${name}`, until: 1 })
    }
    await bench.create('oldest')
    for (let index = 2; index <= MAX_SESSIONS_PER_DID; index += 1) {
      await bench.create(String(index), { until: index % 2 === 0 ? 2 : 3600 })
      if (index % 2 === 1) await bench.end(String(index))
    }
    for (let index = 2; index <= MAX_SESSIONS_PER_DID; index += 1) await bench.create(`later ${index}`, { at: 2 })
    const listed = await bench.list(2)
    bench.expect([listed.length, listed.at(-1)], [50, 'oldest'])
  }),
  storeCase('stores the last 50 sessions of a user, even when 60 are created at once, twice', async (bench) => {
    for (const burst of ['first', 'second']) {
      await bench.allAtOnce(60, (store, index) => store.createSession(createSession(`${burst} ${index}`)))
      const listed = await bench.list()
      bench.expect([listed.length, listed.filter((name) => !name.startsWith(burst))], [50, []])
    }
  }),
  storeCase('keeps all active sessions as others expire', async ({ create, list, expect }) => {
    for (const round of [0, 1, 2, 3, 4]) {
      const names = listNames(5).map((name) => `${round} ${name}`)
      for (const name of names) await create(name, { at: round * 60, until: round * 60 + 60 })
      expect(await list(round * 60), names.reverse())
    }
  }),
  createBoundedCase(
    'evicts the oldest never refreshed sessions, and counts them',
    { maxSessions: 5 },
    async (bench) => {
      await createRefreshed(bench)
      const names = listNames(10)
      let evicted = 0
      for (const name of names) {
        evicted += await createStranger(bench, name)
        bench.expect(await listNamesLeft(bench, [name]), [name], 'A session exists once its creation was answered')
      }
      const refreshed = await listNamesLeft(bench, ['a', 'b'])
      bench.expect(refreshed, ['a', 'b'], 'A full store evicts no refreshed session while there are others')
      const left = await listNamesLeft(bench, names)
      bench.expect(left, names.slice(names.length - left.length))
      bench.expect(evicted, names.length - left.length, COUNTS_EVICTED)
    }
  ),
  createBoundedCase('counts neither ended nor expired sessions as evicted', { maxSessions: 3 }, async (bench) => {
    await createStranger(bench, 'ended')
    await createStranger(bench, 'expired', { expiresAtSeconds: START_SECONDS + 5 })
    await createStranger(bench, '0')
    await bench.end('ended')
    let evicted = 0
    for (const name of ['1', '2', '3', '4']) {
      evicted += await createStranger(bench, name, { nowSeconds: START_SECONDS + 10 })
    }
    bench.expect(evicted, 5 - (await listNamesLeft(bench, listNames(5))).length)
  }),
  createBoundedCase(
    'accepts a new session among refreshed ones, and evicts it first',
    { maxSessions: 2 },
    async (bench) => {
      const evicted = (await createRefreshed(bench)) + (await createStranger(bench, 'new'))
      bench.expect(await listNamesLeft(bench, ['new']), ['new'], 'A session exists once its creation was answered')
      const refreshed = await listNamesLeft(bench, ['a', 'b'])
      bench.expect(evicted, 2 - refreshed.length, COUNTS_EVICTED)
      await createStranger(bench, 'newer')
      bench.expect(await listNamesLeft(bench, ['a', 'b']), refreshed)
    }
  ),
  createBoundedCase('deletes no replaced token to store sessions of other users', { maxSessions: 3 }, async (bench) => {
    await bench.create('a')
    await bench.rotate('a', 0, 1)
    await createStranger(bench, 'stranger')
    for (let token = 0; token < 20; token += 1) await bench.rotate('stranger', token, token + 1)
    for (const name of listNames(20)) await createStranger(bench, name)
    await bench.rotations(['a', 0, 'x', 'reused', { at: 60 }])
  })
]

function listNames(count: number): string[] {
  return Array.from({ length: count }, (_, index) => String(index))
}

/** Creates a session of a user who has no other. */
function createStranger({ create }: Bench, name: string, details: Partial<NewSession> = {}): Promise<number> {
  return create(name, { did: `did:example:${name}`, ...details })
}

/** Creates the refreshed sessions a and b of two users. @returns number of sessions that were evicted for them */
async function createRefreshed(bench: Bench): Promise<number> {
  let evicted = 0
  for (const name of ['a', 'b']) {
    evicted += await createStranger(bench, name)
    await bench.rotate(name, 0, 1)
  }
  return evicted
}

/** Returns the names of those sessions that still exist. */
async function listNamesLeft({ find }: Bench, names: readonly string[]): Promise<string[]> {
  const sessions = await Promise.all(names.map((name) => find(name)))
  return names.filter((_, index) => sessions[index] !== undefined)
}
