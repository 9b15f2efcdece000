import { claimsOf, expectAnswer, fieldsOf, storedFieldsOf, tamper } from './expect-answer.js'
import {
  allAtOnce,
  anotherDid,
  anotherService,
  did,
  hashOf,
  rotationOf,
  sessionIdsOf,
  sessionOf,
  service,
  START_SECONDS,
  storeCase,
  type StoreCase
} from './store-case.js'

const END_SECONDS = START_SECONDS + 3600

/** Creating, finding, listing and ending sessions. */
export const sessionCases: StoreCase[] = [
  storeCase('says that it is ready', async ({ store, other }) => {
    await store.ping()
    await other.ping()
  }),
  storeCase('finds a new session by its id, with the hash of its refresh token', async ({ store, other }) => {
    await store.createSession(sessionOf('a'))
    const expected = {
      sessionId: 'session-a',
      did,
      state: 'active',
      tokenClaims: undefined,
      createdAtSeconds: START_SECONDS,
      rotatedAtSeconds: START_SECONDS,
      expiresAtSeconds: END_SECONDS,
      refreshTokenHash: hashOf('a', 0),
      replacedTokens: []
    }
    const found = await other.findSession(service, 'session-a')
    expectAnswer(storedFieldsOf(found), expected, 'A session is found as it was created')
    const strange = await store.findSession(service, 'session-b')
    expectAnswer(strange, undefined, 'A session that was never created is undefined')
  }),
  storeCase('keeps the DID as received and knows the user by its lower-case spelling', async ({ store }) => {
    const received = 'did:ethr:rsk:0x00000000000000000000000000000000000000Aa'
    await store.createSession(sessionOf('a', { did: received }))
    await store.createSession(sessionOf('b'))
    const found = await store.findSession(service, 'session-a')
    expectAnswer(found?.did, received, 'The DID of a session is spelled as it was received')
    const listed = Array.from(await store.listSessions(service, did, START_SECONDS), (session) => session.did)
    expectAnswer(listed, [did, received], 'All spellings of a DID are one user, whose sessions are listed together')
    const revoked = await store.revokeSessions(service, did, START_SECONDS)
    expectAnswer(revoked, 2, 'All spellings of a DID are one user, whose sessions are revoked together')
  }),
  storeCase('answers token claims as they were stored', async ({ store }) => {
    const tokenClaims = { role: 'admin', nested: [1, 0.5, null, true, { 'ключ "\u0000': '💶' }], constructor: '' }
    await store.createSession(sessionOf('a', { tokenClaims }))
    await store.createSession(sessionOf('b', { tokenClaims: {} }))
    const found = await store.findSession(service, 'session-a')
    expectAnswer(claimsOf(found), tokenClaims, 'Claims come back as any JSON that went in')
    const [second, first] = await store.listSessions(service, did, START_SECONDS)
    const listed = [claimsOf(first), claimsOf(second)]
    expectAnswer(listed, [tokenClaims, {}], 'Claims are listed as any JSON that went in')
  }),
  storeCase('stores and answers copies, which a caller cannot change it through', async ({ store }) => {
    const created = sessionOf('a', { tokenClaims: { roles: ['reader'] } })
    await store.createSession(created)
    await store.rotateRefreshToken(rotationOf('a', 0, 1, { tokenClaims: { roles: ['reader'] } }))
    const before = storedFieldsOf(await store.findSession(service, 'session-a'))
    tamper(created.tokenClaims, { roles: ['admin'] })
    tamper(created, { did: anotherDid })
    const found = await store.findSession(service, 'session-a')
    tamper(found?.tokenClaims, { roles: ['admin'] })
    tamper(found?.replacedTokens[0], { hash: 'x', replacedAtSeconds: 0 })
    tamper(found?.replacedTokens, { length: 0 })
    tamper(found, { state: 'revoked', refreshTokenHash: 'x', replacedTokens: [] })
    const listed = await store.listSessions(service, did, START_SECONDS)
    tamper(listed[0]?.tokenClaims, { roles: ['admin'] })
    tamper(listed[0], { state: 'revoked', expiresAtSeconds: 0 })
    const after = storedFieldsOf(await store.findSession(service, 'session-a'))
    expectAnswer(after, before, 'A session does not change when objects that were passed or answered change')
  }),
  storeCase('keeps times of more than 32 bits', async ({ store }) => {
    const expiresAtSeconds = START_SECONDS + 3_600_000_000_000
    await store.createSession(sessionOf('a', { expiresAtSeconds }))
    const found = await store.findSession(service, 'session-a')
    expectAnswer(found?.expiresAtSeconds, expiresAtSeconds, 'Times are integers of up to 53 bits')
  }),
  storeCase("keeps each service's sessions to itself, also those with the same ids and tokens", async ({ store }) => {
    const inAnother = { service: anotherService }
    await store.createSession(sessionOf('a'))
    const seen = {
      found: await store.findSession(anotherService, 'session-a'),
      rotated: await store.rotateRefreshToken(rotationOf('a', 0, 1, inAnother)),
      ended: await store.endSession(anotherService, 'session-a', 'loggedOut', START_SECONDS),
      revoked: await store.revokeSessions(anotherService, did, START_SECONDS),
      listed: (await store.listSessions(anotherService, did, START_SECONDS)).length
    }
    const nothing = { found: undefined, rotated: 'unknown', ended: false, revoked: 0, listed: 0 }
    expectAnswer(seen, nothing, "A service sees and changes none of another service's sessions")

    await store.createSession(sessionOf('a', inAnother))
    const verdicts = [
      await store.rotateRefreshToken(rotationOf('a', 0, 1)),
      await store.rotateRefreshToken(rotationOf('a', 0, 1, inAnother))
    ]
    expectAnswer(verdicts, ['rotate', 'rotate'], 'Sessions of two services with one id are two sessions')
    await store.endSession(service, 'session-a', 'loggedOut', START_SECONDS)
    const left = await store.findSession(anotherService, 'session-a')
    expectAnswer(left?.state, 'active', 'A logout of one service ends no session of another')
  }),
  storeCase("lists a user's active sessions, the newest first, until they end", async ({ store, other }) => {
    for (const name of ['a', 'b', 'c']) await store.createSession(sessionOf(name))
    await store.createSession(sessionOf('brief', { expiresAtSeconds: START_SECONDS + 5 }))
    await other.createSession(sessionOf('d', { nowSeconds: START_SECONDS + 1 }))
    await other.createSession(sessionOf('e', { did: anotherDid }))
    await store.endSession(service, 'session-b', 'loggedOut', START_SECONDS)
    const early = { nowSeconds: START_SECONDS + 3, nextExpiresAtSeconds: END_SECONDS }
    await store.rotateRefreshToken(rotationOf('a', 0, 1, early))
    const lists = async (nowSeconds: number, expected: string[], promise: string): Promise<void> => {
      expectAnswer(await sessionIdsOf(other, nowSeconds), expected, promise)
    }
    const all = ['session-d', 'session-brief', 'session-c', 'session-a']
    await lists(START_SECONDS + 4, all, 'Active sessions of the user alone are listed, the one created last first')
    const lasting = ['session-d', 'session-c', 'session-a']
    await lists(START_SECONDS + 5, lasting, 'A session is not listed from the second on in which it expires')
    await lists(END_SECONDS - 1, lasting, 'A session is listed up to the second before it expires')
    await lists(END_SECONDS, [], 'No session is listed from the second on in which it expires')
  }),
  storeCase('lists sessions as it finds them', async ({ store, other }) => {
    await store.createSession(sessionOf('a', { tokenClaims: { role: 'admin' } }))
    await store.rotateRefreshToken(rotationOf('a', 0, 1, { tokenClaims: { role: 'reader' } }))
    const [listed] = await other.listSessions(service, did, START_SECONDS + 10)
    const found = await other.findSession(service, 'session-a')
    expectAnswer(fieldsOf(listed), fieldsOf(found), 'A session is listed with the same fields as it is found with')
  }),
  storeCase('ends an active session once, and its state never changes after', async ({ store, other }) => {
    await store.createSession(sessionOf('a'))
    await store.createSession(sessionOf('b'))
    const answers = [
      await store.endSession(service, 'session-a', 'loggedOut', START_SECONDS),
      await other.endSession(service, 'session-a', 'revoked', START_SECONDS),
      await store.endSession(service, 'session-b', 'revoked', START_SECONDS),
      await store.endSession(service, 'session-c', 'loggedOut', START_SECONDS)
    ]
    expectAnswer(answers, [true, false, true, false], 'Ending answers true for a session that was active, else false')
    const states = [
      (await store.findSession(service, 'session-a'))?.state,
      (await store.findSession(service, 'session-b'))?.state
    ]
    expectAnswer(
      states,
      ['loggedOut', 'revoked'],
      'A session that ended is still found, in the state it ended in first'
    )
  }),
  storeCase('ends a session until the second in which it expires', async ({ store }) => {
    await store.createSession(sessionOf('a'))
    await store.createSession(sessionOf('b'))
    const answers = [
      await store.endSession(service, 'session-a', 'loggedOut', END_SECONDS - 1),
      await store.endSession(service, 'session-b', 'loggedOut', END_SECONDS)
    ]
    expectAnswer(answers, [true, false], 'A session is active up to the second before it expires')
  }),
  storeCase('ends a session once, also when 50 ask at once', async (stores) => {
    await stores.store.createSession(sessionOf('a'))
    const ended = await allAtOnce(stores, 50, (store) =>
      store.endSession(service, 'session-a', 'loggedOut', START_SECONDS)
    )
    expectAnswer(ended.filter(Boolean).length, 1, 'Of 50 that end a session at once exactly one is told that it did')
  }),
  storeCase("revokes a user's active sessions and counts them", async ({ store, other }) => {
    for (const name of ['a', 'b', 'c']) await store.createSession(sessionOf(name))
    await store.createSession(sessionOf('brief', { expiresAtSeconds: START_SECONDS + 5 }))
    await store.createSession(sessionOf('d', { did: anotherDid }))
    await store.endSession(service, 'session-a', 'loggedOut', START_SECONDS)
    const counts = [
      await other.revokeSessions(service, did, START_SECONDS + 5),
      await store.revokeSessions(service, did, START_SECONDS + 5)
    ]
    expectAnswer(counts, [2, 0], 'Revoking answers how many sessions were active, and leaves none')
    const states = await Promise.all(
      ['a', 'b', 'c', 'd'].map(async (name) => (await store.findSession(service, `session-${name}`))?.state)
    )
    const expected = ['loggedOut', 'revoked', 'revoked', 'active']
    expectAnswer(states, expected, "Revoking changes the user's active sessions, no ended one and no other user's")
  })
]
