import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals'
import type { Store } from '../../src/ports.js'
import { copySessions, type CopiedSessions, type SessionCopy } from '../../src/stores/postgres/index.js'
import {
  anotherDid,
  anotherService,
  did,
  rotationOf,
  service,
  sessionOf,
  START_SECONDS
} from '../../src/testing/store-case.js'
import { hashOf, useOf } from '../../src/testing/store-case.js'
import { postgresTables, TEST_TIMEOUT_SECONDS, type PostgresTables } from '../support/postgres-stores.js'
import { sqliteFile, type SqliteFile } from '../support/sqlite-stores.js'

const NOW = START_SECONDS + 20
const NONE: CopiedSessions = { sessions: 0, knownSessions: 0, expiredSessions: 0, oldTokens: 0, challengeUses: 0 }

let tables: PostgresTables
let file: SqliteFile

beforeAll(async () => {
  tables = await postgresTables()
})
afterAll(() => tables.drop())
beforeEach(() => {
  file = sqliteFile()
})
afterEach(async () => {
  await file.remove()
  await tables.clear()
})

function copy(more: Partial<SessionCopy> = {}): Promise<CopiedSessions> {
  const options = { nowSeconds: NOW, timeoutSeconds: TEST_TIMEOUT_SECONDS }
  return copySessions({ from: file.file, to: tables.url, ...options, ...more })
}

/** Sessions in every state: `active`, `rotated` 18 times, `loggedOut`, `revoked`, `expired`, and one of another service. */
async function fill(store: Store): Promise<void> {
  await store.createSession(sessionOf('active', { tokenClaims: { role: 'a"\u0000b' } }))
  await store.createSession(sessionOf('rotated'))
  for (let token = 0; token < 18; token += 1) {
    await store.rotateRefreshToken(rotationOf('rotated', token, token + 1, { nowSeconds: START_SECONDS + token }))
  }
  for (const state of ['loggedOut', 'revoked'] as const) {
    await store.createSession(sessionOf(state, { did: anotherDid }))
    await store.rotateRefreshToken(rotationOf(state, 0, 1))
    await store.endSession(service, `session-${state}`, state, NOW)
  }
  await store.createSession(sessionOf('elsewhere', { service: anotherService }))
  await store.createSession(sessionOf('expired', { expiresAtSeconds: NOW }))
}

describe('copySessions', () => {
  it('copies sessions in every state, in their order; those that have expired are left out', async () => {
    const store = file.store()
    await fill(store)
    expect(await copy()).toEqual({ ...NONE, sessions: 5, expiredSessions: 1 })
    const target = tables.store()
    for (const name of ['active', 'rotated', 'loggedOut', 'revoked']) {
      const [there, here] = await Promise.all([target, store].map((one) => one.findSession(service, `session-${name}`)))
      expect({ ...there, replacedTokens: there?.replacedTokens }).toEqual({
        ...here,
        replacedTokens: here?.replacedTokens
      })
    }
    const listed = await target.listSessions(service, did, NOW)
    expect(listed.map(({ sessionId }) => sessionId)).toEqual(['session-rotated', 'session-active'])
    expect(await target.findSession(anotherService, 'session-elsewhere')).toMatchObject({ did })
    expect(await target.findSession(service, 'session-expired')).toBeUndefined()
  })

  it('judges each refresh token as before: current, replaced, reused, forgotten, of a session that has ended', async () => {
    const store = file.store()
    await fill(store)
    await copy()
    const target = tables.store()
    // Token 1 was forgotten, 17 was replaced within the grace, 4 long before it: its use ends the session.
    const tokens = [
      ...['active', 'loggedOut', 'revoked'].flatMap((name) => [rotationOf(name, 0, 'x'), rotationOf(name, 1, 'y')]),
      ...[1, 17, 18, 18, 4, 18].map((token) => rotationOf('rotated', token, `next of ${token}`))
    ]
    const verdicts: [string, string][] = []
    for (const rotation of tokens) {
      const at = { ...rotation, nowSeconds: NOW }
      verdicts.push([await store.rotateRefreshToken(at), await target.rotateRefreshToken(at)])
    }
    expect(verdicts.map(([, there]) => there)).toEqual(verdicts.map(([here]) => here))
    expect(new Set(verdicts.flat())).toEqual(new Set(['rotate', 'unknown', 'ended', 'replaced', 'repeated', 'reused']))
  })

  it('runs again: it adds what is new, and sets no session back', async () => {
    const store = file.store()
    const target = tables.store()
    await fill(store)
    await copy()
    await target.rotateRefreshToken(rotationOf('active', 0, 'moved', { nowSeconds: NOW }))
    await target.endSession(service, 'session-rotated', 'loggedOut', NOW)
    await store.createSession(sessionOf('later'))
    expect(await copy()).toEqual({ ...NONE, sessions: 1, knownSessions: 5, expiredSessions: 1 })
    expect(await target.findSession(service, 'session-active')).toMatchObject({
      refreshTokenHash: hashOf('active', 'moved')
    })
    expect(await target.findSession(service, 'session-rotated')).toMatchObject({ state: 'loggedOut' })
    expect(await target.findSession(service, 'session-later')).toMatchObject({ state: 'active' })
  })

  it('brings what happened at the old place since the first run: refreshes, and ends', async () => {
    const store = file.store()
    await fill(store)
    await copy()
    await store.rotateRefreshToken(rotationOf('active', 0, 1))
    await store.rotateRefreshToken(rotationOf('active', 1, 2))
    await store.endSession(service, 'session-rotated', 'revoked', NOW)
    expect(await copy()).toMatchObject({ sessions: 2, knownSessions: 3 })
    const target = tables.store()
    expect(await target.rotateRefreshToken(rotationOf('active', 2, 3))).toBe('rotate')
    expect(await target.findSession(service, 'session-rotated')).toMatchObject({ state: 'revoked' })
  })

  it('keeps used challenges used, and forgotten windows closed', async () => {
    const store = file.store()
    await store.consumeChallenge(useOf())
    await store.consumeChallenge(useOf({ did: anotherDid, flow: 'signUp' }))
    expect(await copy()).toEqual({ ...NONE, challengeUses: 2 })
    file.inspect().exec(`UPDATE did_auth_numbers SET number = ${START_SECONDS} WHERE name = 'usesForgottenUntil'`)
    expect(await copy()).toEqual(NONE)
    const target = tables.store()
    expect(await target.consumeChallenge(useOf())).toBe('taken')
    expect(await target.consumeChallenge(useOf({ useCount: 1 }))).toBe('consumed')
    const [row] = await tables.rows("SELECT number FROM did_auth_numbers WHERE name = 'usesForgottenUntil'")
    expect(Number(row?.number)).toBe(START_SECONDS)
    // The file is behind now.
    expect(await copy()).toEqual(NONE)
    expect(await target.countChallengeUses(useOf())).toEqual({ logIn: 2, signUp: 0 })
  })

  it('leaves sessions out where they are not wanted, and copies used challenges', async () => {
    const store = file.store()
    await fill(store)
    await store.consumeChallenge(useOf())
    expect(await copy({ withSessions: false })).toEqual({ ...NONE, challengeUses: 1 })
    expect(await tables.rows('SELECT session_id FROM did_auth_sessions')).toEqual([])
  })

  it('counts the sessions whose refresh token names none, as those of version 0.1 did', async () => {
    await fill(file.store())
    file.inspect().exec(`INSERT INTO did_auth_migrated_tokens
      SELECT refresh_token_hash, service, id FROM did_auth_sessions WHERE session_id IN ('session-active', 'session-expired')`)
    expect(await copy()).toMatchObject({ sessions: 5, oldTokens: 1 })
  })

  it('copies page after page, and tells how far it is', async () => {
    const store = file.store()
    const users = Array.from({ length: 24 }, (_, user) => `did:ethr:rsk:0x${String(user).padStart(40, '0')}`)
    const all = users.flatMap((user, number) =>
      Array.from({ length: 50 }, (_, one) => sessionOf(`${number}-${one}`, { did: user }))
    )
    await Promise.all(all.map((session) => store.createSession(session)))
    const progress: number[] = []
    const copied = await copy({ onProgress: ({ sessions }) => progress.push(sessions) })
    expect(copied.sessions).toBe(1_200)
    expect(progress).toEqual([500, 1_000, 1_200])
    expect(await tables.store().listSessions(service, users[23]!, NOW)).toHaveLength(50)
  })

  it('says that there is no file, and makes none', async () => {
    const from = `${file.folder}/missing.db`
    await expect(copy({ from })).rejects.toThrow(`there is no file ${from}`)
    await expect(copy({ from })).rejects.toThrow('there is no file')
  })
})
