import {
  anotherDid,
  anotherService,
  chargeOf,
  expectAnswer,
  storeCase,
  tally,
  tamper,
  useOf,
  YEAR_SECONDS,
  type StoreCase
} from './store-case.js'

/** The window after the one that `useOf` means. */
const nextWindow = { window: 6_000_001, until: 600 }

/** Uses of challenges: each number once, until the window ends. Quotas: counted in time slots, up to a limit. */
export const countCases: StoreCase[] = [
  storeCase('begins at 0 and raises the count of the flow by one with each use', async ({ use, counts }) => {
    expectAnswer('Before the first use both counts are 0', await counts(), { logIn: 0, signUp: 0 })
    expectAnswer('Challenge number 0 is consumed while the count is 0', await use(), 'consumed')
    const one = 'A use raises the count of its flow by one, for all instances'
    expectAnswer(one, [await counts(), await counts()], Array(2).fill({ logIn: 1, signUp: 0 }))
    const more = [await use({ useCount: 1 }), await use({ flow: 'signUp' })]
    expectAnswer('Each flow counts its own uses', more, ['consumed', 'consumed'])
    expectAnswer('A use raises the count of its flow by one', await counts(), { logIn: 2, signUp: 1 })
  }),
  storeCase('answers taken, and changes nothing, when the count is another one', async ({ use, counts }) => {
    const early = await use({ useCount: 1 })
    expectAnswer('Challenge number 1 is not consumed while the count is 0', early, 'taken')
    await use()
    const wrong = [await use(), await use({ useCount: 2, consumesBoth: true })]
    const promise = 'Neither challenge number 0 nor 2 is consumed while the count is 1'
    expectAnswer(promise, wrong, ['taken', 'taken'])
    expectAnswer('A challenge that is taken raises no count', await counts(), { logIn: 1, signUp: 0 })
  }),
  storeCase('raises the other flow to at least the same count when the signature is good in both', async (bench) => {
    const { use, counts } = bench
    const lifts = 'A use with consumesBoth lifts the other count to its own'
    await use({ consumesBoth: true })
    expectAnswer(lifts, await counts(), { logIn: 1, signUp: 1 })
    for (const useCount of [1, 2, 3]) await use({ flow: 'signUp', useCount })
    await use({ useCount: 1, consumesBoth: true })
    expectAnswer('A use with consumesBoth leaves a higher other count', await counts(), { logIn: 2, signUp: 4 })
    await use({ flow: 'signUp', useCount: 4, consumesBoth: true })
    expectAnswer(lifts, await counts(), { logIn: 5, signUp: 5 })
  }),
  storeCase('answers taken from the second on in which the window ends', async ({ use }) => {
    const answers = [await use({ at: 300 }), await use({ at: 299 }), await use({ at: 300, useCount: 1 })]
    const promise = 'A challenge is consumed up to the second before its window ends'
    expectAnswer(promise, answers, ['taken', 'consumed', 'taken'])
  }),
  storeCase('remembers a use for an instance whose clock is up to 60 s behind', async ({ use, counts }) => {
    await use()
    for (const at of [300, 301, 359]) {
      const answer = await use({ ...nextWindow, did: `did:ethr:0x${at}`, at })
      expectAnswer('Challenges of the next window are consumed when a window is over', answer, 'consumed')
    }
    expectAnswer('A use is remembered until its window has been over for 60 s', await use({ at: 299 }), 'taken')
    const promise = 'A count is remembered until its window has been over for 60 s'
    expectAnswer(promise, await counts(), { logIn: 1, signUp: 0 })
  }),
  storeCase('makes no use good again when a clock is set back', async ({ use }) => {
    await use()
    // Long after the window, so that a store forgets it: at once, or when others come.
    for (const at of [400, 700, 5000]) {
      const passed = Math.floor(at / 300)
      for (const name of ['a', 'b', 'c']) {
        const later = { at, window: 6_000_000 + passed, until: (passed + 1) * 300, did: `did:example:${name}` }
        expectAnswer('Challenges of later windows are consumed', await use(later), 'consumed')
      }
    }
    const promise = 'A used challenge is taken also after its window was forgotten, by the clock of each instance'
    expectAnswer(promise, [await use({ at: 100 }), await use({ at: 100 })], ['taken', 'taken'])
  }),
  storeCase('refuses no user for longer than a window after a clock that ran ahead', async ({ use }) => {
    await use()
    for (const name of ['a', 'b', 'c']) {
      const did = `did:example:${name}`
      await use({ at: YEAR_SECONDS, until: YEAR_SECONDS + 300, window: 6_105_120, did })
    }
    const answers = [await use({ ...nextWindow, at: 310 }), await use({ ...nextWindow, at: 310, did: anotherDid })]
    const promise =
      'Only windows up to the last that was forgotten stay closed, not those that a wrong clock has passed'
    expectAnswer(promise, answers, ['consumed', 'consumed'])
  }),
  storeCase('counts for each user, window and service apart', async ({ use, counts }) => {
    await use()
    for (const key of [{ did: anotherDid }, { window: 6_000_001 }, { service: anotherService }]) {
      const part = Object.keys(key).join()
      expectAnswer(`A use does not count for another ${part}`, await counts(key), { logIn: 0, signUp: 0 })
      expectAnswer(`Challenge number 0 of another ${part} can be consumed as well`, await use(key), 'consumed')
    }
    expectAnswer('Uses of others do not count', await counts(), { logIn: 1, signUp: 0 })
  }),
  storeCase('answers copies of its counts', async ({ store, use, counts }) => {
    await use()
    tamper(await store.countChallengeUses(useOf()), { logIn: 0, signUp: 7 })
    tamper(await store.countChallengeUses(useOf({ did: anotherDid })), { logIn: 7 })
    const answers = [
      await counts(),
      await counts({ did: anotherDid }),
      await counts(),
      await counts({ did: anotherDid })
    ]
    const expected = [
      { logIn: 1, signUp: 0 },
      { logIn: 0, signUp: 0 }
    ]
    const promise = 'Counts do not change when an object changes that was answered'
    expectAnswer(promise, answers, [...expected, ...expected])
  }),
  storeCase('lets exactly one of 50 use a challenge that come at once', async ({ allAtOnce, counts }) => {
    const outcomes = await allAtOnce(50, (store) => store.consumeChallenge(useOf({ consumesBoth: true })))
    const promise = 'Of 50 that consume a challenge at once exactly one succeeds'
    expectAnswer(promise, tally(outcomes), { consumed: 1, taken: 49 })
    expectAnswer('A challenge that 50 consume at once is counted once', await counts(), { logIn: 1, signUp: 1 })
  }),
  storeCase(
    'forgets no use before its window has been over for 60 s, also when it is full',
    async ({ use }) => {
      // A store that has a bound says full; one without says consumed. None forgets another's use.
      const orFull = (answer: string): string => (answer === 'full' ? 'consumed' : answer)
      const user = (index: number): { did: string } => ({ did: `did:ethr:0x${index}` })
      for (const index of [1, 2, 3]) {
        expectAnswer('A store consumes challenges up to its bound', await use(user(index)), 'consumed')
      }
      const fourth = orFull(await use(user(4)))
      expectAnswer('An unused challenge is consumed, or refused as full beyond the bound', fourth, 'consumed')
      for (const index of [1, 2, 3]) {
        const answers = [await use(user(index)), await use({ ...user(index), useCount: 1 })]
        expectAnswer('A full store forgets no use, and counts those it knows', answers, ['taken', 'consumed'])
      }
      // A store frees its entries when a sweep trusts the clock, which may be later.
      for (const index of [5, 6, 7]) {
        const answer = orFull(await use({ ...nextWindow, ...user(index), at: 360 }))
        expectAnswer('A new challenge is consumed, or refused as full until a sweep', answer, 'consumed')
      }
    },
    { maxChallengeUses: 3 }
  ),

  storeCase('counts in a time slot that begins with the first charge', async ({ charge }) => {
    const states = [await charge(), await charge({ at: 30 }), await charge({ at: 30 })]
    const promise = 'All instances count in one slot, which ends as long after its first charge as it lasts'
    const expected = [1, 2, 3].map((count) => ({ isCharged: true, count, endsAt: 60 }))
    expectAnswer(promise, states, expected)
  }),
  storeCase('treats a slot that a clock which ran ahead began as ended, once the clock is right', async (bench) => {
    await bench.charge({ at: YEAR_SECONDS, limit: 1 })
    const { isCharged, count } = await bench.charge({ limit: 1 })
    expectAnswer('A slot that ends later than two slots from now refuses no user', [isCharged, count], [true, 1])
  }),
  storeCase('begins again in the second in which the slot ends', async ({ charge }) => {
    await charge()
    const same = { isCharged: true, count: 2, endsAt: 60 }
    expectAnswer('A charge in the last second of a slot counts in that slot', await charge({ at: 59 }), same)
    const next = { isCharged: true, count: 1, endsAt: 120 }
    expectAnswer('A charge in the second in which a slot ends begins the next one', await charge({ at: 60 }), next)
  }),
  storeCase('adds the cost of a charge, also one of more than 32 bits', async ({ charge }) => {
    const limit = 5_000_000_004
    const costs = [{ cost: 3 }, { cost: 5_000_000_000 }, { cost: 1, limit }, { cost: 1, limit }]
    const seen: unknown[] = []
    for (const details of costs) {
      const { isCharged, count } = await charge(details)
      seen.push(isCharged, count)
    }
    const expected = [true, 3, true, 5_000_000_003, true, limit, false, limit]
    expectAnswer('A charge adds its cost, an integer of up to 53 bits', seen, expected)
  }),
  storeCase('refuses what would lift the count above the limit, and adds nothing then', async ({ charge }) => {
    const later = (cost: number): Promise<unknown> => charge({ cost, limit: 10, at: 30 })
    await charge({ cost: 6, limit: 10 })
    const promise = 'A charge that would lift the count above the limit is refused and adds nothing'
    expectAnswer(promise, await later(5), { isCharged: false, count: 6, endsAt: 60 })
    const full = { isCharged: true, count: 10, endsAt: 60 }
    expectAnswer('A charge that lifts the count exactly to the limit is good', await later(4), full)
    expectAnswer(promise, await later(1), { ...full, isCharged: false })
    const again = await charge({ cost: 10, limit: 10, at: 60 })
    expectAnswer('The next slot begins with the whole limit', again, { ...full, endsAt: 120 })
  }),
  storeCase('begins no slot by a charge that it refuses', async ({ charge }) => {
    const expectRefused = async (at: number): Promise<void> => {
      const { isCharged, count, endsAt } = await charge({ cost: 5, limit: 4, at })
      const promise = 'A cost above the limit is refused in an empty slot, whose end lies at most a slot ahead'
      expectAnswer(promise, [isCharged, count, at < endsAt && endsAt <= at + 60], [false, 0, true])
    }
    await expectRefused(-30)
    const begun = { isCharged: true, count: 1, endsAt: 60 }
    expectAnswer('A slot begins with the first charge that is not refused', await charge(), begun)
    await expectRefused(60)
    const promise = 'A slot that is over is not begun again by a charge that is refused'
    expectAnswer(promise, await charge({ at: 65 }), { ...begun, endsAt: 125 })
  }),
  storeCase('counts for each key, kind and service apart', async ({ charge }) => {
    await charge()
    for (const other of [{ key: anotherDid }, { kind: 'anonymous' as const }, { service: anotherService }]) {
      const { count } = await charge(other)
      expectAnswer(`A charge does not count for another ${Object.keys(other).join()}`, count, 1)
    }
    expectAnswer('Charges of others do not count', (await charge()).count, 2)
  }),
  storeCase('loses no charge of 50 that come at once', async ({ allAtOnce }) => {
    const states = await allAtOnce(50, (store) => store.chargeQuota(chargeOf()))
    const counts = states.map(({ count }) => count).sort((a, b) => a - b)
    const expected = Array.from({ length: 50 }, (_, index) => index + 1)
    expectAnswer('Each of 50 simultaneous charges is told another count, up to 50', counts, expected)
  }),
  storeCase('charges exactly 20 of 50 that come at once with a limit of 20', async ({ allAtOnce, charge }) => {
    const states = await allAtOnce(50, (store) => store.chargeQuota(chargeOf({ limit: 20 })))
    const charged = tally(states.map(({ isCharged }) => (isCharged ? 'charged' : 'refused')))
    const promise = 'Of 50 simultaneous charges as many are good as the limit says'
    expectAnswer(promise, charged, { charged: 20, refused: 30 })
    const highest = Math.max(...states.map(({ count }) => count))
    expectAnswer('The count of refused charges is not above the limit', highest, 20)
    expectAnswer('Refused charges are not counted', (await charge()).count, 21)
  }),
  storeCase('answers copies of its states', async ({ store, charge }) => {
    tamper(await store.chargeQuota(chargeOf()), { count: 100, resetsAtSeconds: 0 })
    tamper(await store.chargeQuota(chargeOf()), { count: 100, resetsAtSeconds: 0 })
    const { count } = await charge()
    expectAnswer('A count does not change when an object changes that was answered', count, 3)
  }),
  storeCase(
    "lets strangers' quotas push out no user's",
    async ({ charge }) => {
      await charge()
      for (let index = 0; index < 20; index += 1) {
        const anonymous = { kind: 'anonymous', key: String(index), at: index } as const
        const counts = [(await charge(anonymous)).count, (await charge(anonymous)).count]
        expectAnswer("A full store counts a stranger's charges in place of another stranger's", counts, [1, 2])
      }
      const { count } = await charge()
      expectAnswer("No number of anonymous quotas makes a store forget a user's", count, 2)
    },
    { maxQuotas: 3 }
  )
]
