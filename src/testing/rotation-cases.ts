import { deepEqual, equal, notEqual, ok } from 'node:assert/strict'
import { MAX_REPLACED_TOKENS } from '../protocol/session.js'
import {
  allAtOnce,
  anotherDid,
  did,
  hashOf,
  rotationOf,
  storeCase,
  service,
  sessionOf,
  START_SECONDS,
  type StoreCase
} from './store-case.js'

/** Refresh tokens: replaced once, refused after, and a theft noticed. */
export const rotationCases: StoreCase[] = [
  storeCase(
    'replaces a refresh token, and finds the session by the new and by the replaced one',
    async ({ store, other }) => {
      const tokenClaims = { role: 'admin' }
      await store.createSession(sessionOf('a', { tokenClaims }))
      equal(await store.rotateRefreshToken(rotationOf('a', 'b')), 'rotate')
      const session = {
        sessionId: 'session-a',
        did,
        state: 'active',
        tokenClaims,
        createdAtSeconds: START_SECONDS,
        rotatedAtSeconds: START_SECONDS + 10,
        expiresAtSeconds: START_SECONDS + 3610
      }
      deepEqual(await other.findSession(service, hashOf('b')), session)
      deepEqual(await other.findSession(service, hashOf('a')), session)
      deepEqual([...(await other.listSessions(service, did, START_SECONDS))], [session])
      equal(await other.rotateRefreshToken(rotationOf('b', 'c')), 'rotate')
    }
  ),
  storeCase('answers unknown for a token that it never saw, and remembers nothing of it', async ({ store }) => {
    equal(await store.rotateRefreshToken(rotationOf('a', 'b')), 'unknown')
    equal(await store.findSession(service, hashOf('b')), undefined)
  }),
  storeCase('replaces a token until the second in which it expires', async ({ store }) => {
    const nextExpiresAtSeconds = START_SECONDS + 7200
    await store.createSession(sessionOf('a'))
    await store.createSession(sessionOf('b'))
    const late = { nextExpiresAtSeconds, nowSeconds: START_SECONDS + 3600 }
    // An expired session may be forgotten, or not yet.
    ok(['ended', 'unknown'].includes(await store.rotateRefreshToken(rotationOf('a', 'a2', late))))
    equal(await store.findSession(service, hashOf('a2')), undefined)
    const inTime = { nextExpiresAtSeconds, nowSeconds: START_SECONDS + 3599 }
    equal(await store.rotateRefreshToken(rotationOf('b', 'b2', inTime)), 'rotate')
    equal(await store.rotateRefreshToken(rotationOf('b2', 'b3', late)), 'rotate')
  }),
  storeCase(
    'only refuses a replaced token until the grace is over, and then revokes its session alone',
    async ({ store, other }) => {
      await store.createSession(sessionOf('a'))
      await store.createSession(sessionOf('bystander'))
      await store.rotateRefreshToken(rotationOf('a', 'b'))
      const at = (nowSeconds: number): Promise<string> =>
        other.rotateRefreshToken(rotationOf('a', 'thief', { nowSeconds }))
      equal(await at(START_SECONDS + 10), 'replaced')
      equal(await at(START_SECONDS + 20), 'replaced')
      equal((await store.findSession(service, hashOf('b')))?.state, 'active')
      equal(await at(START_SECONDS + 21), 'reused')
      equal(await at(START_SECONDS + 21), 'ended')
      equal((await store.findSession(service, hashOf('b')))?.state, 'revoked')
      equal(await store.rotateRefreshToken(rotationOf('b', 'c', { nowSeconds: START_SECONDS + 21 })), 'ended')
      equal(await store.findSession(service, hashOf('thief')), undefined)
      const listed = await store.listSessions(service, did, START_SECONDS + 21)
      deepEqual(
        Array.from(listed, ({ sessionId }) => sessionId),
        ['session-bystander']
      )
    }
  ),
  storeCase('knows no grace where none is given', async ({ store }) => {
    await store.createSession(sessionOf('a'))
    await store.rotateRefreshToken(rotationOf('a', 'b'))
    equal(await store.rotateRefreshToken(rotationOf('a', 'c', { graceSeconds: 0 })), 'replaced')
    const later = { graceSeconds: 0, nowSeconds: START_SECONDS + 11 }
    equal(await store.rotateRefreshToken(rotationOf('a', 'c', later)), 'reused')
  }),
  storeCase("counts each replaced token's grace from its own replacement", async ({ store }) => {
    await store.createSession(sessionOf('a'))
    await store.rotateRefreshToken(rotationOf('a', 'b', { nowSeconds: START_SECONDS + 10 }))
    await store.rotateRefreshToken(rotationOf('b', 'c', { nowSeconds: START_SECONDS + 20 }))
    const nowSeconds = START_SECONDS + 25
    equal(await store.rotateRefreshToken(rotationOf('b', 'x', { nowSeconds })), 'replaced')
    equal(await store.rotateRefreshToken(rotationOf('a', 'x', { nowSeconds })), 'reused')
  }),
  storeCase('answers ended for the tokens of a session that was logged out or revoked', async ({ store, other }) => {
    for (const state of ['loggedOut', 'revoked'] as const) {
      await store.createSession(sessionOf(state))
      await store.rotateRefreshToken(rotationOf(state, `${state} 2`))
      await other.endSession(service, `session-${state}`, state, START_SECONDS + 11)
      const later = { nowSeconds: START_SECONDS + 100 }
      equal(await store.rotateRefreshToken(rotationOf(`${state} 2`, `${state} 3`, later)), 'ended')
      equal(await store.rotateRefreshToken(rotationOf(state, `${state} 3`, later)), 'ended')
      equal((await store.findSession(service, hashOf(state)))?.state, state)
    }
  }),
  storeCase(
    'remembers the last 16 replaced tokens of a session, each to its end, and no older one',
    async ({ store }) => {
      await store.createSession(sessionOf('0'))
      await store.createSession(sessionOf('bystander', { did: anotherDid }))
      await store.rotateRefreshToken(rotationOf('bystander', 'bystander 2'))
      for (let index = 0; index <= MAX_REPLACED_TOKENS; index += 1) {
        equal(await store.rotateRefreshToken(rotationOf(String(index), String(index + 1))), 'rotate')
      }
      equal(await store.rotateRefreshToken(rotationOf('0', 'x')), 'unknown')
      equal(await store.findSession(service, hashOf('0')), undefined)
      for (let index = 1; index <= MAX_REPLACED_TOKENS; index += 1) {
        equal(await store.rotateRefreshToken(rotationOf(String(index), 'x')), 'replaced')
      }
      equal(await store.rotateRefreshToken(rotationOf('bystander', 'x')), 'replaced')
      equal(await store.rotateRefreshToken(rotationOf('1', 'x', { nowSeconds: START_SECONDS + 21 })), 'reused')
    }
  ),
  storeCase('lets exactly one of 50 win that use a token at once', async (stores) => {
    await stores.store.createSession(sessionOf('a'))
    const verdicts = await allAtOnce(stores, 50, (store, index) =>
      store.rotateRefreshToken(rotationOf('a', `next ${index}`))
    )
    const winner = verdicts.indexOf('rotate')
    equal(verdicts.filter((verdict) => verdict === 'replaced').length, 49)
    notEqual(winner, -1)
    equal(await stores.other.rotateRefreshToken(rotationOf(`next ${winner}`, 'b')), 'rotate')
    equal(await stores.store.findSession(service, hashOf(`next ${winner === 0 ? 1 : 0}`)), undefined)
  }),
  storeCase('refreshes nothing after a logout was answered, whoever was faster', async ({ store, other }) => {
    for (let round = 0; round < 20; round += 1) {
      const name = `round ${round}`
      await store.createSession(sessionOf(name))
      const refresh = (): Promise<unknown> => store.rotateRefreshToken(rotationOf(name, `${name} 2`))
      const logOut = (): Promise<boolean> => other.endSession(service, `session-${name}`, 'loggedOut', START_SECONDS)
      const [first, second] = round % 2 === 0 ? [refresh, logOut] : [logOut, refresh]
      await Promise.all([first(), second()])
      for (const token of [name, `${name} 2`]) {
        notEqual(await store.rotateRefreshToken(rotationOf(token, `${name} 3`)), 'rotate')
      }
    }
  })
]
