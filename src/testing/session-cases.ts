import type { NewSession } from '../ports.js'
import { MAX_SESSIONS_PER_DID } from '../protocol/session.js'
import {
  anotherDid,
  anotherService,
  did,
  expectAnswer,
  fieldsOf,
  hashOf,
  service,
  sessionOf,
  START_SECONDS,
  storeCase,
  tamper,
  type Bench,
  type StoreCase
} from './store-case.js'

/** Creating, finding, listing and ending sessions; how many a user may have, and which a full store evicts. */
export const sessionCases: StoreCase[] = [
  storeCase('says that it is ready', async ({ store, other }) => {
    await store.ping()
    await other.ping()
  }),
  storeCase('finds a new session by its id, with the hash of its refresh token', async ({ create, read }) => {
    await create('a')
    expectAnswer('A session is found as it was created', await read('a'), {
      sessionId: 'session-a',
      did,
      state: 'active',
      tokenClaims: undefined,
      createdAtSeconds: START_SECONDS,
      rotatedAtSeconds: START_SECONDS,
      expiresAtSeconds: START_SECONDS + 3600,
      refreshTokenHash: hashOf('a', 0),
      replacedTokens: []
    })
    expectAnswer('A session that was never created is undefined', await read('b'), undefined)
  }),
  storeCase('keeps the DID as received and knows the user by its lower-case spelling', async (bench) => {
    const received = 'did:ethr:rsk:0x00000000000000000000000000000000000000Aa'
    await bench.create('a', { did: received })
    await bench.create('b')
    expectAnswer('The DID of a session is spelled as it was received', (await bench.find('a'))?.did, received)
    const listed = (await bench.store.listSessions(service, did, START_SECONDS)).map((session) => session.did)
    expectAnswer('All spellings of a DID are one user, whose sessions are listed together', listed, [did, received])
    expectAnswer('All spellings of a DID are one user, whose sessions are revoked together', await bench.revoke(), 2)
  }),
  storeCase('answers token claims as they were stored', async ({ store, create, find }) => {
    const tokenClaims = { role: 'admin', nested: [1, 0.5, null, true, { 'ключ "\u0000': '💶' }], constructor: '' }
    await create('a', { tokenClaims })
    await create('b', { tokenClaims: {} })
    expectAnswer('Claims come back as any JSON that went in', (await find('a'))?.tokenClaims, tokenClaims)
    const listed = (await store.listSessions(service, did, START_SECONDS)).map(({ tokenClaims }) => tokenClaims)
    expectAnswer('Claims are listed as any JSON that went in', listed, [{}, tokenClaims])
  }),
  storeCase('stores and answers copies, which a caller cannot change it through', async ({ store, rotate, read }) => {
    const created = sessionOf('a', { tokenClaims: { roles: ['reader'] } })
    await store.createSession(created)
    await rotate('a', 0, 1, { tokenClaims: { roles: ['reader'] } })
    const before = await read('a')
    tamper(created.tokenClaims, { roles: ['admin'] })
    tamper(created, { did: anotherDid })
    const found = await store.findSession(service, 'session-a')
    tamper(found?.tokenClaims, { roles: ['admin'] })
    tamper(found?.replacedTokens[0], { hash: 'x', replacedAtSeconds: 0 })
    tamper(found?.replacedTokens, { length: 0 })
    tamper(found, { state: 'revoked', refreshTokenHash: 'x', replacedTokens: [] })
    const [listed] = await store.listSessions(service, did, START_SECONDS)
    tamper(listed?.tokenClaims, { roles: ['admin'] })
    tamper(listed, { state: 'revoked', expiresAtSeconds: 0 })
    const after = [await read('a'), await read('a')]
    expectAnswer('A session does not change when objects that were passed or answered change', after, [before, before])
  }),
  storeCase('keeps times of more than 32 bits', async ({ create, find }) => {
    await create('a', { until: 3_600_000_000_000 })
    const expected = START_SECONDS + 3_600_000_000_000
    expectAnswer('Times are integers of up to 53 bits', (await find('a'))?.expiresAtSeconds, expected)
  }),
  storeCase("keeps each service's sessions to itself, also those with the same ids and tokens", async (bench) => {
    const { store, create, rotate, find, rotations } = bench
    const inAnother = { service: anotherService }
    await create('a')
    const seen = {
      found: await find('a', anotherService),
      rotated: await rotate('a', 0, 1, inAnother),
      ended: await store.endSession(anotherService, 'session-a', 'loggedOut', START_SECONDS),
      revoked: await bench.revoke(0, anotherService),
      listed: (await store.listSessions(anotherService, did, START_SECONDS)).length
    }
    const nothing = { found: undefined, rotated: 'unknown', ended: false, revoked: 0, listed: 0 }
    expectAnswer("A service sees and changes none of another service's sessions", seen, nothing)
    await create('a', inAnother)
    await rotations('Sessions of two services with one id are two sessions', [
      ['a', 0, 1, 'rotate'],
      ['a', 0, 1, 'rotate', inAnother]
    ])
    await bench.end('a')
    const left = await find('a', anotherService)
    expectAnswer('A logout of one service ends no session of another', left?.state, 'active')
  }),
  storeCase("lists a user's active sessions, the newest first, until they end", async (bench) => {
    const { create, rotate, end, list } = bench
    for (const name of ['a', 'b', 'c']) await create(name)
    await create('brief', { until: 5 })
    await create('d', { at: 1 })
    await create('e', { did: anotherDid })
    await end('b')
    await rotate('a', 0, 1, { at: 3, until: 3600 })
    const promise = 'Active sessions of the user alone are listed, the one created last first'
    expectAnswer(promise, await list(4), ['d', 'brief', 'c', 'a'])
    const lasting = ['d', 'c', 'a']
    expectAnswer('A session is not listed from the second on in which it expires', await list(5), lasting)
    expectAnswer('A session is listed up to the second before it expires', await list(3599), lasting)
    expectAnswer('No session is listed from the second on in which it expires', await list(3600), [])
  }),
  storeCase('lists sessions as it finds them', async ({ other, create, rotate, find }) => {
    await create('a', { tokenClaims: { role: 'admin' } })
    await rotate('a', 0, 1, { tokenClaims: { role: 'reader' } })
    const [listed] = await other.listSessions(service, did, START_SECONDS + 10)
    const promise = 'A session is listed with the same fields as it is found with'
    expectAnswer(promise, fieldsOf(listed), fieldsOf(await find('a')))
  }),
  storeCase('ends an active session once, and its state never changes after', async ({ create, end, stateOf }) => {
    await create('a')
    await create('b')
    const answers = [await end('a'), await end('a', 'revoked'), await end('b', 'revoked'), await end('c')]
    const promise = 'Ending answers true for a session that was active, else false'
    expectAnswer(promise, answers, [true, false, true, false])
    const states = [await stateOf('a'), await stateOf('b')]
    const kept = 'A session that ended is still found, in the state it ended in first'
    expectAnswer(kept, states, ['loggedOut', 'revoked'])
  }),
  storeCase('ends a session until the second in which it expires', async ({ create, end }) => {
    await create('a')
    await create('b')
    const answers = [await end('a', 'loggedOut', 3599), await end('b', 'loggedOut', 3600)]
    expectAnswer('A session is active up to the second before it expires', answers, [true, false])
  }),
  storeCase('ends a session once, also when 50 ask at once', async ({ create, allAtOnce }) => {
    await create('a')
    const ended = await allAtOnce(50, (store) => store.endSession(service, 'session-a', 'loggedOut', START_SECONDS))
    const promise = 'Of 50 that end a session at once exactly one is told that it did'
    expectAnswer(promise, ended.filter(Boolean).length, 1)
  }),
  storeCase("revokes a user's active sessions and counts them", async ({ create, end, revoke, stateOf }) => {
    for (const name of ['a', 'b', 'c']) await create(name)
    await create('brief', { until: 5 })
    await create('d', { did: anotherDid })
    await end('a')
    const counts = [await revoke(5), await revoke(5)]
    expectAnswer('Revoking answers how many sessions were active, and leaves none', counts, [2, 0])
    const states = await Promise.all(['a', 'b', 'c', 'd'].map(stateOf))
    const promise = "Revoking changes the user's active sessions, no ended one and no other user's"
    expectAnswer(promise, states, ['loggedOut', 'revoked', 'revoked', 'active'])
  }),

  storeCase('keeps 50 sessions of a user and drops the oldest when another comes', async (bench) => {
    await bench.create('other user', { did: anotherDid })
    await bench.create('other service', { service: anotherService })
    let evicted = 0
    for (const name of namesTo(MAX_SESSIONS_PER_DID + 1)) {
      evicted += await bench.create(name)
      if (name === '0') await bench.rotate('0', 0, 1)
    }
    const newest = namesTo(MAX_SESSIONS_PER_DID + 1)
      .slice(1)
      .reverse()
    const promise = 'The 50 sessions of a user that were created last are listed, the newest first'
    expectAnswer(promise, await bench.list(), newest)
    const dropped = await bench.find('0')
    expectAnswer("A user's oldest session is dropped when the user has 50 others", dropped, undefined)
    await bench.rotations('No token of a session that was dropped is known', [
      ['0', 0, 2, 'unknown'],
      ['0', 1, 2, 'unknown']
    ])
    expectAnswer("A user's own sessions that are dropped beyond 50 do not count as evicted", evicted, 0)
    const others = [
      (await bench.store.listSessions(service, anotherDid, START_SECONDS)).length,
      (await bench.store.listSessions(anotherService, did, START_SECONDS)).length
    ]
    expectAnswer('The bound of 50 drops no session of another user or service', others, [1, 1])
  }),
  storeCase('drops no active session of a user while there are expired or ended ones to drop', async (bench) => {
    const { create, end, list } = bench
    // What others left behind, and a store may tidy up first.
    for (const name of namesTo(2 * MAX_SESSIONS_PER_DID)) {
      await create(`brief ${name}`, { did: `did:example:${name}`, until: 1 })
    }
    await create('oldest')
    for (let index = 2; index <= MAX_SESSIONS_PER_DID; index += 1) {
      await create(String(index), { until: index % 2 === 0 ? 2 : 3600 })
      if (index % 2 === 1) await end(String(index))
    }
    for (let index = 2; index <= MAX_SESSIONS_PER_DID; index += 1) await create(`later ${index}`, { at: 2 })
    const listed = await list(2)
    const promise = "A user's expired and ended sessions are dropped before active ones"
    expectAnswer(promise, [listed.length, listed.at(-1)], [50, 'oldest'])
  }),
  storeCase('keeps the last 50 sessions of a user, also when 60 come at once, twice', async ({ allAtOnce, list }) => {
    for (const burst of ['first', 'second']) {
      await allAtOnce(60, (store, index) => store.createSession(sessionOf(`${burst} ${index}`)))
      const listed = await list()
      expectAnswer(`A user has 50 sessions once all 60 of the ${burst} burst were answered`, listed.length, 50)
      const older = listed.filter((name) => !name.startsWith(burst))
      expectAnswer('Sessions of an earlier burst are dropped before those of a later one', older, [])
    }
  }),
  storeCase('keeps all active sessions as others expire', async ({ create, list }) => {
    for (const round of [0, 1, 2, 3, 4]) {
      const names = namesTo(5).map((name) => `${round} ${name}`)
      for (const name of names) await create(name, { at: round * 60, until: round * 60 + 60 })
      expectAnswer('Only expired sessions go when others come', await list(round * 60), names.reverse())
    }
  }),
  storeCase(
    'evicts sessions that were never refreshed, the oldest first, and counts them',
    async (bench) => {
      await createRefreshed(bench)
      const names = namesTo(10)
      let evicted = 0
      for (const name of names) {
        evicted += await createStranger(bench, name)
        expectAnswer('A session is there once its creation was answered', await namesLeft(bench, [name]), [name])
      }
      const refreshed = await namesLeft(bench, ['a', 'b'])
      expectAnswer('A full store evicts no refreshed session while there are others', refreshed, ['a', 'b'])
      const left = await namesLeft(bench, names)
      const newest = names.slice(names.length - left.length)
      expectAnswer('A full store evicts the oldest of the sessions that were never refreshed', left, newest)
      const promise = 'Creating a session answers how many active ones were evicted for it'
      expectAnswer(promise, evicted, names.length - left.length)
    },
    { maxSessions: 5 }
  ),
  storeCase(
    'counts neither ended nor expired sessions as evicted',
    async (bench) => {
      await createStranger(bench, 'ended')
      await createStranger(bench, 'expired', { expiresAtSeconds: START_SECONDS + 5 })
      await createStranger(bench, '0')
      await bench.end('ended')
      let evicted = 0
      for (const name of ['1', '2', '3', '4']) {
        evicted += await createStranger(bench, name, { nowSeconds: START_SECONDS + 10 })
      }
      const missing = 5 - (await namesLeft(bench, namesTo(5))).length
      expectAnswer('Only sessions that were active count as evicted', evicted, missing)
    },
    { maxSessions: 3 }
  ),
  storeCase(
    'accepts a new session where all others were refreshed, and evicts it before them',
    async (bench) => {
      const evicted = (await createRefreshed(bench)) + (await createStranger(bench, 'new'))
      const created = await namesLeft(bench, ['new'])
      expectAnswer('A session is there once its creation was answered', created, ['new'])
      const refreshed = await namesLeft(bench, ['a', 'b'])
      const promise = 'Creating a session answers how many active ones were evicted for it'
      expectAnswer(promise, evicted, 2 - refreshed.length)
      await createStranger(bench, 'newer')
      const left = await namesLeft(bench, ['a', 'b'])
      expectAnswer('A full store evicts no refreshed session while there are others', left, refreshed)
    },
    { maxSessions: 2 }
  ),
  storeCase(
    "forgets no replaced token of a session for the sake of strangers' sessions and refreshes",
    async (bench) => {
      await bench.create('a')
      await bench.rotate('a', 0, 1)
      await createStranger(bench, 'stranger')
      for (let token = 0; token < 20; token += 1) await bench.rotate('stranger', token, token + 1)
      for (const name of namesTo(20)) await createStranger(bench, name)
      await bench.rotations('A replaced token that comes back is noticed, however much strangers do', [
        ['a', 0, 'x', 'reused', { at: 60 }]
      ])
    },
    { maxSessions: 3 }
  )
]

function namesTo(count: number): string[] {
  return Array.from({ length: count }, (_, index) => String(index))
}

/** Creates the session of a user who has no other. */
function createStranger({ create }: Bench, name: string, details: Partial<NewSession> = {}): Promise<number> {
  return create(name, { did: `did:example:${name}`, ...details })
}

/** Creates the sessions a and b of two users, both refreshed. @returns how many were evicted for them */
async function createRefreshed(bench: Bench): Promise<number> {
  let evicted = 0
  for (const name of ['a', 'b']) {
    evicted += await createStranger(bench, name)
    await bench.rotate(name, 0, 1)
  }
  return evicted
}

/** Which of the sessions are still found. */
async function namesLeft({ find }: Bench, names: readonly string[]): Promise<string[]> {
  const found = await Promise.all(names.map((name) => find(name)))
  return names.filter((_, index) => found[index] !== undefined)
}
