import { deepEqual, equal, ok } from 'node:assert/strict'
import { allAtOnce, anotherDid, anotherService, START_SECONDS, storeCase, useOf, type StoreCase } from './store-case.js'

/** Uses of challenges: each number once, remembered until the window ends. */
export const challengeUseCases: StoreCase[] = [
  storeCase('begins at 0 and raises the count of the flow by one with each use', async ({ store, other }) => {
    deepEqual(await store.countChallengeUses(useOf()), { logIn: 0, signUp: 0 })
    equal(await store.useChallenge(useOf()), 'used')
    deepEqual(await other.countChallengeUses(useOf()), { logIn: 1, signUp: 0 })
    equal(await other.useChallenge(useOf({ useCount: 1 })), 'used')
    equal(await store.useChallenge(useOf({ flow: 'signUp' })), 'used')
    deepEqual(await store.countChallengeUses(useOf()), { logIn: 2, signUp: 1 })
  }),
  storeCase('answers taken, and changes nothing, when the count is another one', async ({ store }) => {
    equal(await store.useChallenge(useOf({ useCount: 1 })), 'taken')
    await store.useChallenge(useOf())
    equal(await store.useChallenge(useOf()), 'taken')
    equal(await store.useChallenge(useOf({ useCount: 2, spendsBoth: true })), 'taken')
    deepEqual(await store.countChallengeUses(useOf()), { logIn: 1, signUp: 0 })
  }),
  storeCase(
    'raises the other flow to at least the same count when the signature is good in both',
    async ({ store }) => {
      equal(await store.useChallenge(useOf({ spendsBoth: true })), 'used')
      deepEqual(await store.countChallengeUses(useOf()), { logIn: 1, signUp: 1 })
      for (const useCount of [1, 2, 3]) await store.useChallenge(useOf({ flow: 'signUp', useCount }))
      equal(await store.useChallenge(useOf({ useCount: 1, spendsBoth: true })), 'used')
      deepEqual(await store.countChallengeUses(useOf()), { logIn: 2, signUp: 4 })
      equal(await store.useChallenge(useOf({ flow: 'signUp', useCount: 4, spendsBoth: true })), 'used')
      deepEqual(await store.countChallengeUses(useOf()), { logIn: 5, signUp: 5 })
    }
  ),
  storeCase('answers taken from the second on in which the window ends', async ({ store }) => {
    equal(await store.useChallenge(useOf({ nowSeconds: START_SECONDS + 300 })), 'taken')
    equal(await store.useChallenge(useOf({ nowSeconds: START_SECONDS + 299 })), 'used')
    equal(await store.useChallenge(useOf({ nowSeconds: START_SECONDS + 300, useCount: 1 })), 'taken')
  }),
  storeCase(
    'remembers a use for an instance whose clock is behind, when the window is over for others',
    async (stores) => {
      const { store, other } = stores
      equal(await store.useChallenge(useOf()), 'used')
      const nextWindow = { window: 6_000_001, expiresAtSeconds: START_SECONDS + 600 }
      for (const seconds of [300, 301, 359]) {
        const did = `did:ethr:0x${seconds}`
        equal(await store.useChallenge(useOf({ ...nextWindow, did, nowSeconds: START_SECONDS + seconds })), 'used')
      }
      equal(await other.useChallenge(useOf({ nowSeconds: START_SECONDS + 299 })), 'taken')
      deepEqual(await other.countChallengeUses(useOf()), { logIn: 1, signUp: 0 })
    }
  ),
  storeCase('counts for each user, window and service apart', async ({ store }) => {
    await store.useChallenge(useOf())
    for (const key of [{ did: anotherDid }, { window: 6_000_001 }, { service: anotherService }]) {
      deepEqual(await store.countChallengeUses(useOf(key)), { logIn: 0, signUp: 0 })
      equal(await store.useChallenge(useOf(key)), 'used')
    }
    deepEqual(await store.countChallengeUses(useOf()), { logIn: 1, signUp: 0 })
  }),
  storeCase('gives counts away that nobody can change it through', async ({ store }) => {
    await store.useChallenge(useOf())
    Object.assign(await store.countChallengeUses(useOf()), { logIn: 0, signUp: 7 })
    Object.assign(await store.countChallengeUses(useOf({ did: anotherDid })), { logIn: 7 })
    deepEqual(await store.countChallengeUses(useOf()), { logIn: 1, signUp: 0 })
    deepEqual(await store.countChallengeUses(useOf({ did: anotherDid })), { logIn: 0, signUp: 0 })
  }),
  storeCase('lets exactly one of 50 use a challenge that come at once', async (stores) => {
    const outcomes = await allAtOnce(stores, 50, (store) => store.useChallenge(useOf({ spendsBoth: true })))
    equal(outcomes.filter((outcome) => outcome === 'used').length, 1)
    equal(outcomes.filter((outcome) => outcome === 'taken').length, 49)
    deepEqual(await stores.store.countChallengeUses(useOf()), { logIn: 1, signUp: 1 })
  }),
  storeCase(
    'forgets no use before its window has been over for 60 s, and takes new ones in after',
    async ({ store }) => {
      const nextWindow = { window: 6_000_001, nowSeconds: START_SECONDS + 360, expiresAtSeconds: START_SECONDS + 600 }
      const user = (index: number): { did: string } => ({ did: `did:ethr:0x${index}` })
      for (const index of [1, 2, 3]) equal(await store.useChallenge(useOf(user(index))), 'used')
      // A store that knows a bound says full; one that has room for all says used. None forgets another's use.
      ok(['full', 'used'].includes(await store.useChallenge(useOf(user(4)))))
      for (const index of [1, 2, 3]) {
        equal(await store.useChallenge(useOf(user(index))), 'taken')
        equal(await store.useChallenge(useOf({ ...user(index), useCount: 1 })), 'used')
      }
      for (const index of [5, 6, 7]) equal(await store.useChallenge(useOf({ ...user(index), ...nextWindow })), 'used')
    },
    { maxChallengeUses: 3 }
  )
]
