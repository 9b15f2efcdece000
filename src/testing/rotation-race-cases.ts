import { expectAnswer, tally } from './expect-answer.js'
import {
  allAtOnce,
  hashOf,
  rotationOf,
  sessionOf,
  service,
  START_SECONDS,
  storeCase,
  type StoreCase
} from './store-case.js'

/** Refreshes that race each other, or a logout. */
export const rotationRaceCases: StoreCase[] = [
  storeCase('lets exactly one of 50 win that use a token at once', async (stores) => {
    await stores.store.createSession(sessionOf('a'))
    const verdicts = await allAtOnce(stores, 50, (store, index) =>
      store.rotateRefreshToken(rotationOf('a', 0, `next ${index}`))
    )
    const promise = 'Of 50 simultaneous rotations to different tokens exactly one rotates, and the others are refused'
    expectAnswer(tally(verdicts), { rotate: 1, replaced: 49 }, promise)
    const winner = `next ${verdicts.indexOf('rotate')}`
    const found = await stores.store.findSession(service, 'session-a')
    expectAnswer(found?.refreshTokenHash, hashOf('a', winner), "The winner's token is the current one")
    const next = await stores.other.rotateRefreshToken(rotationOf('a', winner, 'last'))
    expectAnswer(next, 'rotate', "The winner's token can be replaced in turn")
  }),
  storeCase('lets one of 50 win that use the current and a replaced token of a session at once', async (stores) => {
    // Statements that lock the rows of two tokens in different orders end in deadlocks, though not in each round.
    for (const name of ['round 1', 'round 2', 'round 3', 'round 4', 'round 5']) {
      await stores.store.createSession(sessionOf(name))
      await stores.store.rotateRefreshToken(rotationOf(name, 0, 1))
      const verdicts = await allAtOnce(stores, 50, (store, index) =>
        // Both store objects present both tokens.
        store.rotateRefreshToken(rotationOf(name, index % 4 < 2 ? 0 : 1, `next ${index}`))
      )
      const promise = 'Of 50 simultaneous rotations of the current and the replaced token exactly one rotates'
      expectAnswer(tally(verdicts), { rotate: 1, replaced: 49 }, promise)
      const winner = `next ${verdicts.indexOf('rotate')}`
      const found = await stores.other.findSession(service, `session-${name}`)
      const seen = [found?.state, found?.refreshTokenHash]
      expectAnswer(seen, ['active', hashOf(name, winner)], "The session stays active with the winner's token")
    }
  }),
  storeCase('refreshes nothing after a logout was answered, whichever was faster', async ({ store, other }) => {
    for (let round = 0; round < 20; round += 1) {
      const name = `round ${round}`
      await store.createSession(sessionOf(name))
      const refresh = (): Promise<unknown> => store.rotateRefreshToken(rotationOf(name, 0, 1))
      const logOut = (): Promise<boolean> => other.endSession(service, `session-${name}`, 'loggedOut', START_SECONDS)
      const [first, second] = round % 2 === 0 ? [refresh, logOut] : [logOut, refresh]
      await Promise.all([first(), second()])
      const verdicts = [
        await store.rotateRefreshToken(rotationOf(name, 0, 1)),
        await store.rotateRefreshToken(rotationOf(name, 1, 2))
      ]
      const refused = verdicts.filter((verdict) => verdict === 'rotate' || verdict === 'repeated')
      expectAnswer(refused, [], 'No token of a session is good once its logout was answered')
    }
  })
]
