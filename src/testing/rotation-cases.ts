import { MAX_REPLACED_TOKENS } from '../protocol/session.js'
import { claimsOf, expectAnswer, storedFieldsOf } from './expect-answer.js'
import {
  anotherDid,
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

/** Refresh tokens: replaced once, refused after, and a theft noticed. */
export const rotationCases: StoreCase[] = [
  storeCase('replaces a refresh token, moves its end and remembers the replaced ones', async ({ store, other }) => {
    await store.createSession(sessionOf('a'))
    const verdicts = [
      await store.rotateRefreshToken(rotationOf('a', 0, 1)),
      await other.rotateRefreshToken(rotationOf('a', 1, 2, { nowSeconds: START_SECONDS + 20 }))
    ]
    expectAnswer(verdicts, ['rotate', 'rotate'], 'The current token of an active session is replaced')
    const expected = {
      sessionId: 'session-a',
      did,
      state: 'active',
      tokenClaims: undefined,
      createdAtSeconds: START_SECONDS,
      rotatedAtSeconds: START_SECONDS + 20,
      expiresAtSeconds: START_SECONDS + 3610,
      refreshTokenHash: hashOf('a', 2),
      replacedTokens: [
        { hash: hashOf('a', 0).slice(0, 24), replacedAtSeconds: START_SECONDS + 10 },
        { hash: hashOf('a', 1).slice(0, 24), replacedAtSeconds: START_SECONDS + 20 }
      ]
    }
    const found = await store.findSession(service, 'session-a')
    expectAnswer(storedFieldsOf(found), expected, 'A session is found as its last refresh left it')
  }),
  storeCase('sets the claims of the session with each rotation', async ({ store, other }) => {
    await store.createSession(sessionOf('a', { tokenClaims: { role: 'admin' } }))
    const claims = async (): Promise<unknown> => claimsOf(await other.findSession(service, 'session-a'))
    await store.rotateRefreshToken(rotationOf('a', 0, 1, { tokenClaims: { role: 'reader' } }))
    expectAnswer(await claims(), { role: 'reader' }, 'A rotation replaces the claims of the session')
    await store.rotateRefreshToken(rotationOf('a', 1, 2, { tokenClaims: undefined }))
    expectAnswer(await claims(), undefined, 'A rotation without claims leaves the session without claims')
    await store.rotateRefreshToken(rotationOf('a', 2, 3, { tokenClaims: { role: 'author' } }))
    await store.rotateRefreshToken(rotationOf('a', 0, 9, { tokenClaims: { role: 'admin' } }))
    expectAnswer(await claims(), { role: 'author' }, 'A refused rotation changes no claims')
  }),
  storeCase('answers unknown for a token that it never saw, and changes nothing', async ({ store }) => {
    const nothing = await store.rotateRefreshToken(rotationOf('a', 0, 1))
    expectAnswer(nothing, 'unknown', 'A session that was never created is unknown')
    const created = await store.findSession(service, 'session-a')
    expectAnswer(created, undefined, 'A refused rotation creates no session')
    await store.createSession(sessionOf('a'))
    await store.createSession(sessionOf('b'))
    await store.rotateRefreshToken(rotationOf('a', 0, 1))
    const before = storedFieldsOf(await store.findSession(service, 'session-a'))
    const verdicts = [
      await store.rotateRefreshToken(rotationOf('a', 'guessed', 2)),
      await store.rotateRefreshToken(rotationOf('a', 'guessed', 1)),
      await store.rotateRefreshToken(rotationOf('a', 0, 1, { presentedHash: hashOf('b', 0) }))
    ]
    const unknown = ['unknown', 'unknown', 'unknown']
    expectAnswer(
      verdicts,
      unknown,
      'A token of no session, or of another one, is unknown, whatever it asks to be replaced by'
    )
    const after = storedFieldsOf(await store.findSession(service, 'session-a'))
    expectAnswer(after, before, 'An unknown token changes nothing')
  }),
  storeCase('replaces a token until the second in which it expires', async ({ store }) => {
    const nextExpiresAtSeconds = START_SECONDS + 7200
    await store.createSession(sessionOf('a'))
    await store.createSession(sessionOf('b'))
    const late = { nextExpiresAtSeconds, nowSeconds: START_SECONDS + 3600 }
    const expired = await store.rotateRefreshToken(rotationOf('a', 0, 1, late))
    // An expired session may be forgotten, or not yet.
    const known = expired === 'unknown' ? 'ended' : expired
    expectAnswer(known, 'ended', 'A token is not replaced from the second on in which it expires')
    const inTime = { nextExpiresAtSeconds, nowSeconds: START_SECONDS + 3599 }
    const verdicts = [
      await store.rotateRefreshToken(rotationOf('b', 0, 1, inTime)),
      await store.rotateRefreshToken(rotationOf('b', 1, 2, late))
    ]
    expectAnswer(verdicts, ['rotate', 'rotate'], 'A token is replaced up to the second before it expires')
  }),
  storeCase('refuses a replaced token within the grace, and revokes its session after it', async ({ store, other }) => {
    await store.createSession(sessionOf('a'))
    await store.createSession(sessionOf('bystander'))
    await store.rotateRefreshToken(rotationOf('a', 0, 1))
    const at = (nowSeconds: number): Promise<string> =>
      other.rotateRefreshToken(rotationOf('a', 0, 'thief', { nowSeconds }))
    const state = async (): Promise<unknown> => (await store.findSession(service, 'session-a'))?.state
    const early = [await at(START_SECONDS + 10), await at(START_SECONDS + 20), await state()]
    const refused = ['replaced', 'replaced', 'active']
    expectAnswer(
      early,
      refused,
      'A replaced token is only refused up to 10 s after its replacement, with a grace of 10 s'
    )
    const later = [await at(START_SECONDS + 21), await state()]
    expectAnswer(later, ['reused', 'revoked'], 'A replaced token that comes back after the grace revokes its session')
    const after = [
      await at(START_SECONDS + 21),
      await store.rotateRefreshToken(rotationOf('a', 1, 2, { nowSeconds: START_SECONDS + 21 }))
    ]
    expectAnswer(
      after,
      ['ended', 'ended'],
      'No token of a revoked session is good, neither the current nor a replaced one'
    )
    const listed = await sessionIdsOf(store, START_SECONDS + 21)
    expectAnswer(listed, ['session-bystander'], 'A token that is used twice revokes its own session alone')
  }),
  storeCase('knows no grace where none is given', async ({ store }) => {
    await store.createSession(sessionOf('a'))
    await store.rotateRefreshToken(rotationOf('a', 0, 1))
    const verdicts = [
      await store.rotateRefreshToken(rotationOf('a', 0, 9, { graceSeconds: 0 })),
      await store.rotateRefreshToken(rotationOf('a', 0, 9, { graceSeconds: 0, nowSeconds: START_SECONDS + 11 }))
    ]
    const promise =
      'A replaced token is refused in the second of its replacement, and reused in the next without a grace'
    expectAnswer(verdicts, ['replaced', 'reused'], promise)
  }),
  storeCase("counts each replaced token's grace from its own replacement", async ({ store }) => {
    await store.createSession(sessionOf('a'))
    await store.rotateRefreshToken(rotationOf('a', 0, 1, { nowSeconds: START_SECONDS + 10 }))
    await store.rotateRefreshToken(rotationOf('a', 1, 2, { nowSeconds: START_SECONDS + 20 }))
    const nowSeconds = START_SECONDS + 25
    const verdicts = [
      await store.rotateRefreshToken(rotationOf('a', 1, 9, { nowSeconds })),
      await store.rotateRefreshToken(rotationOf('a', 0, 9, { nowSeconds }))
    ]
    const promise = 'A token replaced 5 s ago is refused and one replaced 15 s ago is reused, with a grace of 10 s'
    expectAnswer(verdicts, ['replaced', 'reused'], promise)
  }),
  storeCase('answers ended for the tokens of a session that was logged out or revoked', async ({ store, other }) => {
    for (const state of ['loggedOut', 'revoked'] as const) {
      await store.createSession(sessionOf(state))
      await store.rotateRefreshToken(rotationOf(state, 0, 1))
      await other.endSession(service, `session-${state}`, state, START_SECONDS + 11)
      const later = { nowSeconds: START_SECONDS + 100 }
      const answers = [
        await store.rotateRefreshToken(rotationOf(state, 1, 2, later)),
        await store.rotateRefreshToken(rotationOf(state, 0, 1, later)),
        await store.rotateRefreshToken(rotationOf(state, 0, 2, later)),
        (await store.findSession(service, `session-${state}`))?.state
      ]
      expectAnswer(answers, ['ended', 'ended', 'ended', state], `No token brings a session back that is ${state}`)
    }
  }),
  storeCase('remembers the last 16 replaced tokens of a session, and no older one', async ({ store }) => {
    await store.createSession(sessionOf('a'))
    await store.createSession(sessionOf('bystander', { did: anotherDid }))
    await store.rotateRefreshToken(rotationOf('bystander', 0, 1))
    for (let token = 0; token <= MAX_REPLACED_TOKENS; token += 1) {
      const verdict = await store.rotateRefreshToken(rotationOf('a', token, token + 1))
      expectAnswer(verdict, 'rotate', 'A session can be refreshed any number of times')
    }
    const oldest = await store.rotateRefreshToken(rotationOf('a', 0, 'x'))
    expectAnswer(oldest, 'unknown', 'The 17th last replaced token of a session is forgotten')
    for (let token = 1; token <= MAX_REPLACED_TOKENS; token += 1) {
      const verdict = await store.rotateRefreshToken(rotationOf('a', token, 'x'))
      expectAnswer(verdict, 'replaced', 'The last 16 replaced tokens of a session are remembered')
    }
    const verdicts = [
      await store.rotateRefreshToken(rotationOf('bystander', 0, 'x')),
      await store.rotateRefreshToken(rotationOf('a', 1, 'x', { nowSeconds: START_SECONDS + 21 }))
    ]
    expectAnswer(verdicts, ['replaced', 'reused'], 'The oldest of 16 remembered tokens is noticed after the grace')
  })
]
