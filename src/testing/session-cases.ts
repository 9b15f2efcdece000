import { deepEqual, equal, ok } from 'node:assert/strict'
import { MAX_SESSIONS_PER_DID } from '../protocol/session.js'
import {
  allAtOnce,
  anotherDid,
  anotherService,
  did,
  hashOf,
  rotationOf,
  storeCase,
  service,
  sessionOf,
  START_SECONDS,
  type StoreCase
} from './store-case.js'

const END_SECONDS = START_SECONDS + 3600

/** Creating, finding, listing and ending sessions. */
export const sessionCases: StoreCase[] = [
  storeCase('says that it is ready', async ({ store, other }) => {
    await store.ping()
    await other.ping()
  }),
  storeCase('finds a new session by the hash of its refresh token', async ({ store, other }) => {
    await store.createSession(sessionOf('a'))
    deepEqual(await other.findSession(service, hashOf('a')), {
      sessionId: 'session-a',
      did,
      state: 'active',
      tokenClaims: undefined,
      createdAtSeconds: START_SECONDS,
      rotatedAtSeconds: START_SECONDS,
      expiresAtSeconds: END_SECONDS
    })
    equal(await store.findSession(service, hashOf('b')), undefined)
  }),
  storeCase('keeps the DID as received and knows the user by its lower-case spelling', async ({ store }) => {
    const received = 'did:ethr:rsk:0x00000000000000000000000000000000000000Aa'
    await store.createSession(sessionOf('a', { did: received }))
    await store.createSession(sessionOf('b'))
    equal((await store.findSession(service, hashOf('a')))?.did, received)
    const listed = await store.listSessions(service, did, START_SECONDS)
    deepEqual(
      Array.from(listed, (session) => session.did),
      [did, received]
    )
    equal(await store.revokeSessions(service, did, START_SECONDS), 2)
  }),
  storeCase('gives token claims back as they were', async ({ store }) => {
    const tokenClaims = { role: 'admin', nested: [1, 0.5, null, true, { 'ключ "\u0000': '💶' }], constructor: '' }
    await store.createSession(sessionOf('a', { tokenClaims }))
    await store.createSession(sessionOf('b', { tokenClaims: {} }))
    deepEqual((await store.findSession(service, hashOf('a')))?.tokenClaims, tokenClaims)
    const [second, first] = await store.listSessions(service, did, START_SECONDS)
    deepEqual([first?.tokenClaims, second?.tokenClaims], [tokenClaims, {}])
  }),
  storeCase('neither keeps nor gives away objects that a caller could change it through', async ({ store }) => {
    const tokenClaims = { roles: ['reader'] }
    await store.createSession(sessionOf('a', { tokenClaims }))
    tokenClaims.roles.push('admin')
    const found = await store.findSession(service, hashOf('a'))
    deepEqual(found?.tokenClaims, { roles: ['reader'] })
    Object.assign(found, { state: 'revoked', tokenClaims: {} })
    const [listed] = await store.listSessions(service, did, START_SECONDS)
    deepEqual(listed?.tokenClaims, { roles: ['reader'] })
  }),
  storeCase('keeps times that 32 bits do not hold', async ({ store }) => {
    const expiresAtSeconds = START_SECONDS + 3_600_000_000_000
    await store.createSession(sessionOf('a', { expiresAtSeconds }))
    equal((await store.findSession(service, hashOf('a')))?.expiresAtSeconds, expiresAtSeconds)
  }),
  storeCase("keeps each service's sessions to itself, also those with the same ids and tokens", async ({ store }) => {
    await store.createSession(sessionOf('a'))
    equal(await store.findSession(anotherService, hashOf('a')), undefined)
    equal(await store.rotateRefreshToken(rotationOf('a', 'b', { service: anotherService })), 'unknown')
    equal(await store.endSession(anotherService, 'session-a', 'loggedOut', START_SECONDS), false)
    equal(await store.revokeSessions(anotherService, did, START_SECONDS), 0)
    equal((await store.listSessions(anotherService, did, START_SECONDS)).length, 0)

    await store.createSession(sessionOf('a', { service: anotherService }))
    equal(await store.rotateRefreshToken(rotationOf('a', 'b')), 'rotate')
    equal(await store.rotateRefreshToken(rotationOf('a', 'b', { service: anotherService })), 'rotate')
    equal(await store.endSession(service, 'session-a', 'loggedOut', START_SECONDS), true)
    equal((await store.findSession(anotherService, hashOf('b')))?.state, 'active')
  }),
  storeCase(
    "lists a user's active sessions, the newest first, until the second in which they end",
    async ({ store, other }) => {
      for (const name of ['a', 'b', 'c']) await store.createSession(sessionOf(name))
      await store.createSession(sessionOf('brief', { expiresAtSeconds: START_SECONDS + 5 }))
      await other.createSession(sessionOf('d', { nowSeconds: START_SECONDS + 1 }))
      await other.createSession(sessionOf('e', { did: anotherDid }))
      await store.endSession(service, 'session-b', 'loggedOut', START_SECONDS)
      const ids = async (nowSeconds: number): Promise<string[]> =>
        Array.from(await store.listSessions(service, did, nowSeconds), ({ sessionId }) => sessionId)
      deepEqual(await ids(START_SECONDS + 4), ['session-d', 'session-brief', 'session-c', 'session-a'])
      deepEqual(await ids(START_SECONDS + 5), ['session-d', 'session-c', 'session-a'])
      deepEqual(await ids(END_SECONDS - 1), ['session-d', 'session-c', 'session-a'])
      deepEqual(await ids(END_SECONDS), [])
    }
  ),
  storeCase(
    'ends an active session once, in the state it is told, and never changes that',
    async ({ store, other }) => {
      await store.createSession(sessionOf('a'))
      await store.createSession(sessionOf('b'))
      equal(await store.endSession(service, 'session-a', 'loggedOut', START_SECONDS), true)
      equal(await other.endSession(service, 'session-a', 'revoked', START_SECONDS), false)
      equal((await store.findSession(service, hashOf('a')))?.state, 'loggedOut')
      equal(await store.endSession(service, 'session-b', 'revoked', START_SECONDS), true)
      equal((await store.findSession(service, hashOf('b')))?.state, 'revoked')
      equal(await store.endSession(service, 'session-c', 'loggedOut', START_SECONDS), false)
    }
  ),
  storeCase('ends a session until the second in which it expires', async ({ store }) => {
    await store.createSession(sessionOf('a'))
    await store.createSession(sessionOf('b'))
    equal(await store.endSession(service, 'session-a', 'loggedOut', END_SECONDS - 1), true)
    equal(await store.endSession(service, 'session-b', 'loggedOut', END_SECONDS), false)
  }),
  storeCase('ends a session once, also when 50 ask at once', async (stores) => {
    await stores.store.createSession(sessionOf('a'))
    const ended = await allAtOnce(stores, 50, (store) =>
      store.endSession(service, 'session-a', 'loggedOut', START_SECONDS)
    )
    equal(ended.filter(Boolean).length, 1)
  }),
  storeCase("revokes a user's active sessions and counts them", async ({ store, other }) => {
    for (const name of ['a', 'b', 'c']) await store.createSession(sessionOf(name))
    await store.createSession(sessionOf('brief', { expiresAtSeconds: START_SECONDS + 5 }))
    await store.createSession(sessionOf('d', { did: anotherDid }))
    await store.endSession(service, 'session-a', 'loggedOut', START_SECONDS)
    equal(await other.revokeSessions(service, did, START_SECONDS + 5), 2)
    equal(await store.revokeSessions(service, did, START_SECONDS + 5), 0)
    equal((await store.findSession(service, hashOf('a')))?.state, 'loggedOut')
    equal((await store.findSession(service, hashOf('b')))?.state, 'revoked')
    equal((await store.listSessions(service, anotherDid, START_SECONDS)).length, 1)
  }),
  storeCase('keeps 50 sessions of a user and drops the oldest when another comes', async ({ store }) => {
    await store.createSession(sessionOf('other user', { did: anotherDid }))
    await store.createSession(sessionOf('other service', { service: anotherService }))
    for (let index = 0; index <= MAX_SESSIONS_PER_DID; index += 1) {
      await store.createSession(sessionOf(String(index)))
      if (index === 0) await store.rotateRefreshToken(rotationOf('0', '0 rotated'))
    }
    const listed = await store.listSessions(service, did, START_SECONDS)
    deepEqual(
      Array.from(listed, ({ sessionId }) => sessionId),
      Array.from({ length: MAX_SESSIONS_PER_DID }, (_, index) => `session-${MAX_SESSIONS_PER_DID - index}`)
    )
    equal(await store.findSession(service, hashOf('0')), undefined)
    equal(await store.rotateRefreshToken(rotationOf('0', 'next')), 'unknown')
    equal(await store.rotateRefreshToken(rotationOf('0 rotated', 'next')), 'unknown')
    equal((await store.listSessions(service, anotherDid, START_SECONDS)).length, 1)
    equal((await store.listSessions(anotherService, did, START_SECONDS)).length, 1)
  }),
  storeCase('drops no active session of a user while there are expired or ended ones to drop', async ({ store }) => {
    // What others left behind, and a store may tidy up first.
    for (let index = 0; index < 2 * MAX_SESSIONS_PER_DID; index += 1) {
      const brief = { did: `did:example:${index}`, expiresAtSeconds: START_SECONDS + 1 }
      await store.createSession(sessionOf(`brief ${index}`, brief))
    }
    await store.createSession(sessionOf('oldest'))
    for (let index = 2; index <= MAX_SESSIONS_PER_DID; index += 1) {
      const expiresAtSeconds = index % 2 === 0 ? START_SECONDS + 2 : END_SECONDS
      await store.createSession(sessionOf(String(index), { expiresAtSeconds }))
      if (index % 2 === 1) await store.endSession(service, `session-${index}`, 'loggedOut', START_SECONDS)
    }
    const nowSeconds = START_SECONDS + 2
    for (let index = 2; index <= MAX_SESSIONS_PER_DID; index += 1) {
      await store.createSession(sessionOf(`later ${index}`, { nowSeconds }))
    }
    const listed = await store.listSessions(service, did, nowSeconds)
    equal(listed.length, MAX_SESSIONS_PER_DID)
    equal(listed.at(-1)?.sessionId, 'session-oldest')
  }),
  storeCase('keeps no more than 50 sessions of a user, also when 60 come at once', async (stores) => {
    await allAtOnce(stores, 60, (store, index) => store.createSession(sessionOf(String(index))))
    equal((await stores.store.listSessions(service, did, START_SECONDS)).length, MAX_SESSIONS_PER_DID)
  }),
  storeCase('goes on as others expire', async ({ store }) => {
    for (let round = 0; round < 5; round += 1) {
      const nowSeconds = START_SECONDS + round * 60
      for (let index = 0; index < 5; index += 1) {
        const name = `${round} ${index}`
        await store.createSession(sessionOf(name, { nowSeconds, expiresAtSeconds: nowSeconds + 60 }))
      }
      equal((await store.listSessions(service, did, nowSeconds)).length, 5)
      ok(await store.findSession(service, hashOf(`${round} 0`)))
    }
  })
]
