import { expectAnswer, storedFieldsOf, tally } from './expect-answer.js'
import { allAtOnce, rotationOf, sessionOf, service, START_SECONDS, storeCase, type StoreCase } from './store-case.js'

/** A refresh whose answer was lost, and that comes again with the same token to follow. */
export const repeatedRotationCases: StoreCase[] = [
  storeCase('answers repeated, and changes nothing, when a rotation comes again', async ({ store, other }) => {
    await store.createSession(sessionOf('a', { tokenClaims: { role: 'reader' } }))
    const tokenClaims = { role: 'author' }
    await store.rotateRefreshToken(rotationOf('a', 0, 1, { tokenClaims }))
    const before = storedFieldsOf(await store.findSession(service, 'session-a'))
    const again = (seconds: number) =>
      rotationOf('a', 0, 1, {
        tokenClaims: { role: 'admin' },
        nowSeconds: START_SECONDS + seconds,
        nextExpiresAtSeconds: START_SECONDS + seconds + 3600
      })
    const verdicts = [
      await store.rotateRefreshToken(rotationOf('a', 0, 1, { tokenClaims })),
      await other.rotateRefreshToken(rotationOf('a', 0, 1, { tokenClaims })),
      await other.rotateRefreshToken(again(21)),
      await store.rotateRefreshToken(again(3609))
    ]
    const promise = 'The same rotation is repeated on each instance, and at any time until the session ends'
    expectAnswer(verdicts, ['repeated', 'repeated', 'repeated', 'repeated'], promise)
    const after = storedFieldsOf(await other.findSession(service, 'session-a'))
    expectAnswer(after, before, 'A repeated rotation changes neither claims nor times nor tokens')
    const next = await store.rotateRefreshToken(rotationOf('a', 1, 2, { nowSeconds: START_SECONDS + 3609 }))
    expectAnswer(next, 'rotate', 'The token that a repeated rotation answered again is the current one')
  }),
  storeCase('repeats no rotation of a session that is over', async ({ store, other }) => {
    for (const name of ['expired', 'loggedOut', 'revoked']) {
      await store.createSession(sessionOf(name))
      await store.rotateRefreshToken(rotationOf(name, 0, 1))
    }
    await other.endSession(service, 'session-loggedOut', 'loggedOut', START_SECONDS + 10)
    await other.endSession(service, 'session-revoked', 'revoked', START_SECONDS + 10)
    const ended = [
      await store.rotateRefreshToken(rotationOf('loggedOut', 0, 1)),
      await store.rotateRefreshToken(rotationOf('revoked', 0, 1))
    ]
    expectAnswer(ended, ['ended', 'ended'], 'A rotation is not repeated once the session is logged out or revoked')
    const expired = await store.rotateRefreshToken(rotationOf('expired', 0, 1, { nowSeconds: START_SECONDS + 3610 }))
    // An expired session may be forgotten, or not yet.
    const known = expired === 'unknown' ? 'ended' : expired
    expectAnswer(known, 'ended', 'A rotation is not repeated from the second on in which the session expires')
  }),
  storeCase('refuses a rotation whose next token was used, and revokes nothing', async ({ store, other }) => {
    await store.createSession(sessionOf('a'))
    await store.rotateRefreshToken(rotationOf('a', 0, 1))
    await store.rotateRefreshToken(rotationOf('a', 1, 2))
    const before = storedFieldsOf(await store.findSession(service, 'session-a'))
    const verdicts = [
      await store.rotateRefreshToken(rotationOf('a', 0, 1)),
      await other.rotateRefreshToken(rotationOf('a', 0, 1, { nowSeconds: START_SECONDS + 21 })),
      await store.rotateRefreshToken(rotationOf('a', 0, 1, { nowSeconds: START_SECONDS + 3609 }))
    ]
    const promise = 'A late duplicate of an honest rotation is only refused, also after the grace'
    expectAnswer(verdicts, ['replaced', 'replaced', 'replaced'], promise)
    const after = storedFieldsOf(await other.findSession(service, 'session-a'))
    expectAnswer(after, before, 'A late duplicate of an honest rotation changes nothing')
  }),
  storeCase('notices another who has the replaced token, however often it was repeated', async ({ store, other }) => {
    await store.createSession(sessionOf('a'))
    await store.rotateRefreshToken(rotationOf('a', 0, 1))
    const at = (next: number | string, seconds: number): Promise<string> =>
      other.rotateRefreshToken(rotationOf('a', 0, next, { nowSeconds: START_SECONDS + seconds }))
    const early = [await at(1, 15), await at('thief', 20), await at(1, 20)]
    const promise =
      'Within the grace a replaced token is refused with another token to follow, and still repeated with its own'
    expectAnswer(early, ['repeated', 'replaced', 'repeated'], promise)
    const late = [await at('thief', 21), (await store.findSession(service, 'session-a'))?.state, await at(1, 21)]
    expectAnswer(
      late,
      ['reused', 'revoked', 'ended'],
      'The grace runs from the replacement, not from a repeated rotation'
    )
  }),
  storeCase('rotates once, and repeats it for all others, when 50 come with one next token', async (stores) => {
    await stores.store.createSession(sessionOf('a'))
    const verdicts = await allAtOnce(stores, 50, (store) => store.rotateRefreshToken(rotationOf('a', 0, 1)))
    const promise = 'Of 50 simultaneous rotations to one next token exactly one rotates, and the others are repeated'
    expectAnswer(tally(verdicts), { rotate: 1, repeated: 49 }, promise)
    const found = await stores.other.findSession(service, 'session-a')
    expectAnswer(found?.replacedTokens.length, 1, 'Repeated rotations add no replaced token')
    const next = await stores.other.rotateRefreshToken(rotationOf('a', 1, 2))
    expectAnswer(next, 'rotate', 'The token that 50 rotations answered is the current one')
  })
]
