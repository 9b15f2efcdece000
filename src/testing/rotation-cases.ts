import { MAX_REPLACED_TOKENS } from '../protocol/session.js'
import {
  anotherDid,
  did,
  hashToken,
  createRotation,
  service,
  START_SECONDS,
  storeCase,
  countAnswers
} from './store-case.js'

/** Tests of refresh tokens: rotation, reuse, theft, and refreshes that are repeated or race. */
export const rotationCases = [
  storeCase('replaces a refresh token, extends the session and stores the replaced tokens', async (bench) => {
    await bench.create('a')
    await bench.rotations(['a', 0, 1, 'rotate'], ['a', 1, 2, 'rotate', { at: 20 }])
    bench.expect(await bench.read('a'), {
      sessionId: 'session-a',
      did,
      state: 'active',
      tokenClaims: undefined,
      createdAtSeconds: START_SECONDS,
      rotatedAtSeconds: START_SECONDS + 20,
      expiresAtSeconds: START_SECONDS + 3610,
      refreshTokenHash: hashToken('a', 2),
      replacedTokens: [
        { hash: hashToken('a', 0).slice(0, 24), replacedAtSeconds: START_SECONDS + 10 },
        { hash: hashToken('a', 1).slice(0, 24), replacedAtSeconds: START_SECONDS + 20 }
      ]
    })
  }),
  storeCase('sets the claims of the session with each rotation', async ({ create, rotate, find, expect }) => {
    await create('a', { tokenClaims: { role: 'admin' } })
    await rotate('a', 0, 1, { tokenClaims: { role: 'reader' } })
    expect((await find('a'))?.tokenClaims, { role: 'reader' })
    await rotate('a', 1, 2)
    expect((await find('a'))?.tokenClaims, undefined, 'A rotation without claims leaves the session without any')
    await rotate('a', 2, 3, { tokenClaims: { role: 'author' } })
    await rotate('a', 0, 9, { tokenClaims: { role: 'admin' } })
    expect((await find('a'))?.tokenClaims, { role: 'author' }, 'A refused rotation changes no claims')
  }),
  storeCase('answers unknown to a token that was never issued, and changes nothing', async (bench) => {
    await bench.rotations(['a', 0, 1, 'unknown'])
    bench.expect(await bench.find('a'), undefined, 'A refused rotation creates no session')
    await bench.create('a')
    await bench.create('b')
    await bench.rotate('a', 0, 1)
    const before = await bench.read('a')
    await bench.rotations(
      ['a', 'guessed', 2, 'unknown'],
      ['a', 'guessed', 1, 'unknown'],
      ['a', 0, 1, 'unknown', { presentedHash: hashToken('b', 0) }]
    )
    bench.expect(await bench.read('a'), before)
  }),
  storeCase('replaces a token until the second in which it expires', async ({ create, rotate, rotations, expect }) => {
    await create('a')
    await create('b')
    expect(toEndedVerdict(await rotate('a', 0, 1, { at: 3600, until: 7200 })), 'ended')
    await rotations(['b', 0, 1, 'rotate', { at: 3599, until: 7200 }], ['b', 1, 2, 'rotate', { at: 3600, until: 7200 }])
    const repeated = await rotate('b', 1, 2, { at: 7200, until: 10_800 })
    expect(toEndedVerdict(repeated), 'ended', 'A rotation is repeated until the second in which its token expires')
  }),
  storeCase('refuses a replaced token in its grace period, and revokes its session later', async (bench) => {
    await bench.create('a')
    await bench.create('bystander')
    await bench.rotate('a', 0, 1)
    await bench.rotations(['a', 0, 'thief', 'replaced'], ['a', 0, 'thief', 'replaced', { at: 20 }])
    bench.expect(await bench.stateOf('a'), 'active')
    await bench.rotations(['a', 0, 'thief', 'reused', { at: 21 }])
    bench.expect(await bench.stateOf('a'), 'revoked')
    await bench.rotations(['a', 0, 'thief', 'ended', { at: 21 }], ['a', 1, 2, 'ended', { at: 21 }])
    bench.expect(await bench.list(21), ['bystander'], 'A token that is used twice revokes only its own session')
  }),
  storeCase('has no grace period when it is 0 s', async ({ create, rotate, rotations }) => {
    await create('a')
    await rotate('a', 0, 1)
    await rotations(['a', 0, 9, 'replaced', { graceSeconds: 0 }], ['a', 0, 9, 'reused', { graceSeconds: 0, at: 11 }])
  }),
  storeCase(
    "counts each replaced token's grace period from its own replacement",
    async ({ create, rotate, rotations }) => {
      await create('a')
      await rotate('a', 0, 1, { at: 10 })
      await rotate('a', 1, 2, { at: 20 })
      await rotations(['a', 1, 9, 'replaced', { at: 25 }], ['a', 0, 9, 'reused', { at: 25 }])
    }
  ),
  storeCase('answers ended to the tokens of a session that was logged out or revoked', async (bench) => {
    for (const state of ['loggedOut', 'revoked'] as const) {
      await bench.create(state)
      await bench.rotate(state, 0, 1)
      await bench.end(state, state, 11)
      await bench.rotations(
        [state, 1, 2, 'ended', { at: 100 }],
        [state, 0, 1, 'ended', { at: 100 }],
        [state, 0, 2, 'ended', { at: 100 }]
      )
      bench.expect(await bench.stateOf(state), state, `No token makes a ${state} session active again`)
    }
  }),
  storeCase('stores the last 16 replaced tokens of a session, and no older one', async (bench) => {
    await bench.create('a')
    await bench.create('bystander', { did: anotherDid })
    await bench.rotate('bystander', 0, 1)
    const tokens = Array.from({ length: MAX_REPLACED_TOKENS + 1 }, (_, token) => token)
    for (const token of tokens) await bench.rotations(['a', token, token + 1, 'rotate'])
    await bench.rotations(['a', 0, 'x', 'unknown'])
    for (const token of tokens.slice(1)) await bench.rotations(['a', token, 'x', 'replaced'])
    await bench.rotations(['bystander', 0, 'x', 'replaced'], ['a', 1, 'x', 'reused', { at: 21 }])
  }),

  storeCase('answers repeated, and changes nothing, when a rotation is repeated', async (bench) => {
    await bench.create('a', { tokenClaims: { role: 'reader' } })
    const tokenClaims = { role: 'author' }
    await bench.rotate('a', 0, 1, { tokenClaims })
    const before = await bench.read('a')
    const later = (at: number) => ({ tokenClaims: { role: 'admin' }, at, until: at + 3600 })
    for (const details of [{ tokenClaims }, { tokenClaims }, later(21), later(3609)]) {
      await bench.rotations(['a', 0, 1, 'repeated', details])
    }
    bench.expect(await bench.read('a'), before, 'A repeated rotation changes neither claims nor times nor tokens')
    await bench.rotations(['a', 1, 2, 'rotate', { at: 3609 }])
  }),
  storeCase('refuses a rotation whose next token was used, and revokes nothing', async (bench) => {
    await bench.create('a')
    await bench.rotate('a', 0, 1)
    await bench.rotate('a', 1, 2)
    const before = await bench.read('a')
    for (const at of [10, 21, 3609]) await bench.rotations(['a', 0, 1, 'replaced', { at }])
    bench.expect(await bench.read('a'), before)
  }),
  storeCase('detects a thief of a replaced token, even after repeated rotations', async (bench) => {
    await bench.create('a')
    await bench.rotate('a', 0, 1)
    await bench.rotations(
      ['a', 0, 1, 'repeated', { at: 15 }],
      ['a', 0, 'thief', 'replaced', { at: 20 }],
      ['a', 0, 1, 'repeated', { at: 20 }],
      ['a', 0, 'thief', 'reused', { at: 21 }]
    )
    bench.expect(await bench.stateOf('a'), 'revoked')
    await bench.rotations(['a', 0, 1, 'ended', { at: 21 }])
  }),
  storeCase('rotates once, and answers repeated to the others, for 50 calls with one next token', async (bench) => {
    await bench.create('a')
    const verdicts = await bench.allAtOnce(50, (store) => store.rotateRefreshToken(createRotation('a', 0, 1)))
    bench.expect(countAnswers(verdicts), { rotate: 1, repeated: 49 })
    bench.expect((await bench.find('a'))?.replacedTokens.length, 1, 'Repeated rotations add no replaced token')
    await bench.rotations(['a', 1, 2, 'rotate'])
  }),

  storeCase('lets exactly one of 50 simultaneous rotations of a token succeed', async (bench) => {
    await bench.create('a')
    const verdicts = await bench.allAtOnce(50, (store, index) =>
      store.rotateRefreshToken(createRotation('a', 0, `next ${index}`))
    )
    bench.expect(countAnswers(verdicts), { rotate: 1, replaced: 49 })
    const winner = `next ${verdicts.indexOf('rotate')}`
    const session = await bench.find('a')
    bench.expect(session?.refreshTokenHash, hashToken('a', winner), "The winner's token is the current one")
    await bench.rotations(['a', winner, 'last', 'rotate'])
  }),
  storeCase('lets one of 50 simultaneous rotations of a current and a replaced token succeed', async (bench) => {
    // Statements that lock the rows of two tokens in different orders cause deadlocks, though not in every round.
    for (const name of ['round 1', 'round 2', 'round 3', 'round 4', 'round 5']) {
      await bench.create(name)
      await bench.rotate(name, 0, 1)
      const verdicts = await bench.allAtOnce(50, (store, index) =>
        // Both store objects present both tokens.
        store.rotateRefreshToken(createRotation(name, index % 4 < 2 ? 0 : 1, `next ${index}`))
      )
      bench.expect(countAnswers(verdicts), { rotate: 1, replaced: 49 })
      const { state, refreshTokenHash } = (await bench.find(name)) ?? {}
      const expected = ['active', hashToken(name, `next ${verdicts.indexOf('rotate')}`)]
      bench.expect([state, refreshTokenHash], expected, "The session stays active with the winner's token")
    }
  }),
  storeCase('reports a theft once when a replaced token is used four times at once', async (bench) => {
    for (let round = 0; round < 10; round += 1) {
      const name = `round ${round}`
      await bench.create(name)
      await bench.rotate(name, 0, 1)
      const verdicts = await bench.allAtOnce(4, (store, index) =>
        store.rotateRefreshToken(createRotation(name, 0, `thief ${index}`, { at: 21 }))
      )
      bench.expect(countAnswers(verdicts), { ended: 3, reused: 1 })
    }
  }),
  storeCase('rotates no token after a logout was answered, even if both raced', async (bench) => {
    for (let round = 0; round < 20; round += 1) {
      const name = `round ${round}`
      await bench.create(name)
      const refresh = (next = 1): Promise<string> =>
        bench.store.rotateRefreshToken(createRotation(name, next - 1, next))
      const logOut = (): Promise<boolean> =>
        bench.other.endSession(service, `session-${name}`, 'loggedOut', START_SECONDS)
      await Promise.all(round % 2 === 0 ? [refresh(), logOut()] : [logOut(), refresh()])
      const verdicts = [await refresh(1), await refresh(2)]
      const refreshed = verdicts.filter((verdict) => verdict === 'rotate' || verdict === 'repeated')
      bench.expect(refreshed, [])
    }
  })
]

/** Converts `unknown` to `ended`, because the store may already have deleted an expired session. */
function toEndedVerdict(verdict: string): string {
  return verdict === 'unknown' ? 'ended' : verdict
}
