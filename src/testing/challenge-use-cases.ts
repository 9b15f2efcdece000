import { expectAnswer, tally, tamper } from './expect-answer.js'
import { allAtOnce, anotherDid, anotherService, START_SECONDS, storeCase, useOf, type StoreCase } from './store-case.js'

/** The window after the one that `useOf` means. */
const nextWindow = { window: 6_000_001, expiresAtSeconds: START_SECONDS + 600 }

const YEAR_SECONDS = 31_536_000

/** Uses of challenges: each number once, remembered until the window ends. */
export const challengeUseCases: StoreCase[] = [
  storeCase('begins at 0 and raises the count of the flow by one with each use', async ({ store, other }) => {
    const none = { ...(await store.countChallengeUses(useOf())) }
    expectAnswer(none, { logIn: 0, signUp: 0 }, 'Before the first use both counts are 0')
    const first = await store.consumeChallenge(useOf())
    expectAnswer(first, 'consumed', 'Challenge number 0 is consumed while the count is 0')
    const one = { ...(await other.countChallengeUses(useOf())) }
    expectAnswer(one, { logIn: 1, signUp: 0 }, 'A use raises the count of its flow by one, for all instances')
    const more = [
      await other.consumeChallenge(useOf({ useCount: 1 })),
      await store.consumeChallenge(useOf({ flow: 'signUp' }))
    ]
    expectAnswer(more, ['consumed', 'consumed'], 'Each flow counts its own uses')
    const both = { ...(await store.countChallengeUses(useOf())) }
    expectAnswer(both, { logIn: 2, signUp: 1 }, 'A use raises the count of its flow by one')
  }),
  storeCase('answers taken, and changes nothing, when the count is another one', async ({ store }) => {
    const early = await store.consumeChallenge(useOf({ useCount: 1 }))
    expectAnswer(early, 'taken', 'Challenge number 1 is not consumed while the count is 0')
    await store.consumeChallenge(useOf())
    const wrong = [
      await store.consumeChallenge(useOf()),
      await store.consumeChallenge(useOf({ useCount: 2, consumesBoth: true }))
    ]
    expectAnswer(wrong, ['taken', 'taken'], 'Neither challenge number 0 nor 2 is consumed while the count is 1')
    const counts = { ...(await store.countChallengeUses(useOf())) }
    expectAnswer(counts, { logIn: 1, signUp: 0 }, 'A challenge that is taken raises no count')
  }),
  storeCase(
    'raises the other flow to at least the same count when the signature is good in both',
    async ({ store }) => {
      const counts = async (): Promise<unknown> => ({ ...(await store.countChallengeUses(useOf())) })
      await store.consumeChallenge(useOf({ consumesBoth: true }))
      expectAnswer(await counts(), { logIn: 1, signUp: 1 }, 'A use with consumesBoth lifts the other count to its own')
      for (const useCount of [1, 2, 3]) await store.consumeChallenge(useOf({ flow: 'signUp', useCount }))
      await store.consumeChallenge(useOf({ useCount: 1, consumesBoth: true }))
      expectAnswer(await counts(), { logIn: 2, signUp: 4 }, 'A use with consumesBoth leaves a higher other count')
      await store.consumeChallenge(useOf({ flow: 'signUp', useCount: 4, consumesBoth: true }))
      expectAnswer(await counts(), { logIn: 5, signUp: 5 }, 'A use with consumesBoth lifts the other count to its own')
    }
  ),
  storeCase('answers taken from the second on in which the window ends', async ({ store }) => {
    const answers = [
      await store.consumeChallenge(useOf({ nowSeconds: START_SECONDS + 300 })),
      await store.consumeChallenge(useOf({ nowSeconds: START_SECONDS + 299 })),
      await store.consumeChallenge(useOf({ nowSeconds: START_SECONDS + 300, useCount: 1 }))
    ]
    const promise = 'A challenge is consumed up to the second before its window ends'
    expectAnswer(answers, ['taken', 'consumed', 'taken'], promise)
  }),
  storeCase('remembers a use for an instance whose clock is up to 60 s behind', async ({ store, other }) => {
    await store.consumeChallenge(useOf())
    for (const seconds of [300, 301, 359]) {
      const strangersUse = useOf({ ...nextWindow, did: `did:ethr:0x${seconds}`, nowSeconds: START_SECONDS + seconds })
      const answer = await store.consumeChallenge(strangersUse)
      expectAnswer(answer, 'consumed', 'Challenges of the next window are consumed when a window is over')
    }
    const late = await other.consumeChallenge(useOf({ nowSeconds: START_SECONDS + 299 }))
    expectAnswer(late, 'taken', 'A use is remembered until its window has been over for 60 s')
    const counts = { ...(await other.countChallengeUses(useOf())) }
    expectAnswer(counts, { logIn: 1, signUp: 0 }, 'A count is remembered until its window has been over for 60 s')
  }),
  storeCase('makes no use good again when a clock is set back', async ({ store, other }) => {
    await store.consumeChallenge(useOf())
    // Long after the window, so that a store forgets it: at once, or when others come.
    for (const seconds of [400, 700, 5000]) {
      const [nowSeconds, window] = [START_SECONDS + seconds, Math.floor((START_SECONDS + seconds) / 300)]
      for (const name of ['a', 'b', 'c']) {
        const later = { nowSeconds, window, expiresAtSeconds: (window + 1) * 300, did: `did:example:${name}` }
        const answer = await store.consumeChallenge(useOf(later))
        expectAnswer(answer, 'consumed', 'Challenges of later windows are consumed')
      }
    }
    const answers = [
      await store.consumeChallenge(useOf({ nowSeconds: START_SECONDS + 100 })),
      await other.consumeChallenge(useOf({ nowSeconds: START_SECONDS + 100 }))
    ]
    const promise = 'A used challenge is taken also after its window was forgotten, by the clock of each instance'
    expectAnswer(answers, ['taken', 'taken'], promise)
  }),
  storeCase('refuses no user for longer than a window after a clock that ran ahead', async ({ store, other }) => {
    await store.consumeChallenge(useOf())
    const ahead = { nowSeconds: START_SECONDS + YEAR_SECONDS, expiresAtSeconds: START_SECONDS + YEAR_SECONDS + 300 }
    for (const name of ['a', 'b', 'c']) {
      await store.consumeChallenge(useOf({ ...ahead, window: 6_105_120, did: `did:example:${name}` }))
    }
    const answers = [
      await store.consumeChallenge(useOf({ ...nextWindow, nowSeconds: START_SECONDS + 310 })),
      await other.consumeChallenge(useOf({ ...nextWindow, nowSeconds: START_SECONDS + 310, did: anotherDid }))
    ]
    const promise =
      'Only windows up to the last that was forgotten stay closed, not those that a wrong clock has passed'
    expectAnswer(answers, ['consumed', 'consumed'], promise)
  }),
  storeCase('counts for each user, window and service apart', async ({ store }) => {
    await store.consumeChallenge(useOf())
    for (const key of [{ did: anotherDid }, { window: 6_000_001 }, { service: anotherService }]) {
      const part = Object.keys(key).join()
      const counts = { ...(await store.countChallengeUses(useOf(key))) }
      expectAnswer(counts, { logIn: 0, signUp: 0 }, `A use does not count for another ${part}`)
      const answer = await store.consumeChallenge(useOf(key))
      expectAnswer(answer, 'consumed', `Challenge number 0 of another ${part} can be consumed as well`)
    }
    const counts = { ...(await store.countChallengeUses(useOf())) }
    expectAnswer(counts, { logIn: 1, signUp: 0 }, 'Uses of others do not count')
  }),
  storeCase('answers copies of its counts', async ({ store }) => {
    await store.consumeChallenge(useOf())
    tamper(await store.countChallengeUses(useOf()), { logIn: 0, signUp: 7 })
    tamper(await store.countChallengeUses(useOf({ did: anotherDid })), { logIn: 7 })
    const used = { ...(await store.countChallengeUses(useOf())) }
    expectAnswer(used, { logIn: 1, signUp: 0 }, 'Counts do not change when an object changes that was answered')
    const unused = { ...(await store.countChallengeUses(useOf({ did: anotherDid }))) }
    expectAnswer(unused, { logIn: 0, signUp: 0 }, 'Counts of 0 do not change when an object changes that was answered')
  }),
  storeCase('lets exactly one of 50 use a challenge that come at once', async (stores) => {
    const outcomes = await allAtOnce(stores, 50, (store) => store.consumeChallenge(useOf({ consumesBoth: true })))
    const promise = 'Of 50 that consume a challenge at once exactly one succeeds'
    expectAnswer(tally(outcomes), { consumed: 1, taken: 49 }, promise)
    const counts = { ...(await stores.store.countChallengeUses(useOf())) }
    expectAnswer(counts, { logIn: 1, signUp: 1 }, 'A challenge that 50 consume at once is counted once')
  }),
  storeCase(
    'forgets no use before its window has been over for 60 s, also when it is full',
    async ({ store }) => {
      const later = { ...nextWindow, nowSeconds: START_SECONDS + 360 }
      const user = (index: number): { did: string } => ({ did: `did:ethr:0x${index}` })
      for (const index of [1, 2, 3]) {
        const answer = await store.consumeChallenge(useOf(user(index)))
        expectAnswer(answer, 'consumed', 'A store consumes challenges up to its bound')
      }
      // A store that has a bound says full; one without says consumed. None forgets another's use.
      const fourth = await store.consumeChallenge(useOf(user(4)))
      const isFull = fourth === 'full' ? 'consumed' : fourth
      expectAnswer(isFull, 'consumed', 'An unused challenge is consumed, or refused as full beyond the bound')
      for (const index of [1, 2, 3]) {
        const answers = [
          await store.consumeChallenge(useOf(user(index))),
          await store.consumeChallenge(useOf({ ...user(index), useCount: 1 }))
        ]
        expectAnswer(answers, ['taken', 'consumed'], 'A full store forgets no use, and counts those it knows')
      }
      // A store frees its entries when a sweep trusts the clock, which may be later.
      for (const index of [5, 6, 7]) {
        const answer = await store.consumeChallenge(useOf({ ...user(index), ...later }))
        const isConsumed = answer === 'full' ? 'consumed' : answer
        expectAnswer(isConsumed, 'consumed', 'A new challenge is consumed, or refused as full until a sweep')
      }
    },
    { maxChallengeUses: 3 }
  )
]
