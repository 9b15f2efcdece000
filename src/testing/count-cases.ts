import {
  anotherDid,
  anotherService,
  createBoundedCase,
  createCharge,
  storeCase,
  countAnswers,
  tamper,
  createUse
} from './store-case.js'

const YEAR_SECONDS = 31_536_000
/** The window after that of `createUse`. */
const nextWindow = { window: 6_000_001, until: 600 }

/** Maximum number of windows until a sweep that began by a wrong clock has ended. */
const MAX_SWEPT_WINDOWS = 5

/** Tests of challenge uses (each number once, until the window ends) and of quotas (time slots with a limit). */
export const countCases = [
  storeCase('begins at 0, and raises the count of its flow by one with each use', async ({ use, counts, expect }) => {
    expect([await counts(), await use()], [{ logIn: 0, signUp: 0 }, 'consumed'])
    expect([await counts(), await counts()], Array(2).fill({ logIn: 1, signUp: 0 }), 'A use counts for all instances')
    expect([await use({ useCount: 1 }), await use({ flow: 'signUp' })], ['consumed', 'consumed'])
    expect(await counts(), { logIn: 2, signUp: 1 })
  }),
  storeCase('answers taken, and changes nothing, when the count is another one', async ({ use, counts, expect }) => {
    const both = { useCount: 2, consumesBoth: true }
    const answers = [await use({ useCount: 1 }), await use(), await use(), await use(both)]
    expect(answers, ['taken', 'consumed', 'taken', 'taken'])
    expect(await counts(), { logIn: 1, signUp: 0 }, 'A challenge that is taken raises no count')
  }),
  storeCase('raises the other flow to at least the same count when the signature is valid in both', async (bench) => {
    await bench.use({ consumesBoth: true })
    bench.expect(await bench.counts(), { logIn: 1, signUp: 1 })
    for (const useCount of [1, 2, 3]) await bench.use({ flow: 'signUp', useCount })
    await bench.use({ useCount: 1, consumesBoth: true })
    bench.expect(await bench.counts(), { logIn: 2, signUp: 4 }, 'A use with consumesBoth leaves a higher other count')
    await bench.use({ flow: 'signUp', useCount: 4, consumesBoth: true })
    bench.expect(await bench.counts(), { logIn: 5, signUp: 5 })
  }),
  storeCase('answers taken from the second in which the window ends', async ({ use, expect }) => {
    const answers = [await use({ at: 300 }), await use({ at: 299 }), await use({ at: 300, useCount: 1 })]
    expect(answers, ['taken', 'consumed', 'taken'])
  }),
  storeCase('remembers a use for an instance whose clock is up to 60 s behind', async ({ use, counts, expect }) => {
    await use()
    for (const at of [300, 301, 359]) {
      const answer = await use({ ...nextWindow, did: `did:ethr:0x${at}`, at })
      expect(answer, 'consumed', 'Challenges of the next window are consumed when a window is over')
    }
    expect([await use({ at: 299 }), await counts()], ['taken', { logIn: 1, signUp: 0 }])
  }),
  storeCase('makes no used challenge valid again when a clock is set back', async ({ use, expect }) => {
    await use()
    // Long after the window, when a store deletes its uses, at once or with later uses.
    for (const at of [400, 700, 5000]) {
      const passed = Math.floor(at / 300)
      for (const name of ['a', 'b', 'c']) {
        const later = { at, window: 6_000_000 + passed, until: (passed + 1) * 300, did: `did:example:${name}` }
        expect(await use(later), 'consumed', 'Challenges of later windows are consumed')
      }
    }
    expect([await use({ at: 100 }), await use({ at: 100 })], ['taken', 'taken'])
  }),
  storeCase('refuses users for at most a window after a clock that ran ahead', async ({ use, expect }) => {
    await use()
    for (const name of ['a', 'b', 'c']) {
      const ahead = { at: YEAR_SECONDS, until: YEAR_SECONDS + 300, window: 6_105_120 }
      await use({ ...ahead, did: `did:example:${name}` })
    }
    // A sweep that began by the wrong clock may still run, and may close the window that is current when it ends.
    let answers = ['taken']
    for (let passed = 1; passed <= MAX_SWEPT_WINDOWS && answers.includes('taken'); passed += 1) {
      const later = { at: passed * 300 + 10, until: (passed + 1) * 300, window: 6_000_000 + passed }
      answers = [await use(later), await use({ ...later, did: anotherDid })]
    }
    expect(answers, ['consumed', 'consumed'])
  }),
  storeCase('counts the uses of each user, window and service separately', async ({ use, counts, expect }) => {
    await use()
    for (const key of [{ did: anotherDid }, { window: 6_000_001 }, { service: anotherService }]) {
      expect([await counts(key), await use(key)], [{ logIn: 0, signUp: 0 }, 'consumed'])
    }
    expect(await counts(), { logIn: 1, signUp: 0 })
  }),
  storeCase('returns copies of its counts', async ({ store, use, counts, expect }) => {
    await use()
    tamper(await store.countChallengeUses(createUse()), { logIn: 0, signUp: 7 })
    tamper(await store.countChallengeUses(createUse({ did: anotherDid })), { logIn: 7 })
    expect([await counts(), await counts()], Array(2).fill({ logIn: 1, signUp: 0 }))
    expect(await counts({ did: anotherDid }), { logIn: 0, signUp: 0 })
  }),
  storeCase('lets exactly one of 50 simultaneous calls consume a challenge', async ({ allAtOnce, counts, expect }) => {
    const outcomes = await allAtOnce(50, (store) => store.consumeChallenge(createUse({ consumesBoth: true })))
    expect(countAnswers(outcomes), { consumed: 1, taken: 49 })
    expect(await counts(), { logIn: 1, signUp: 1 }, 'A challenge that 50 calls consume at once is counted once')
  }),
  createBoundedCase(
    'deletes no use for 60 s after its window, even when full',
    { maxChallengeUses: 3 },
    async (bench) => {
      const { use, expect } = bench
      // A store with a limit answers full, one without answers consumed. Neither deletes another use.
      const orFull = (answer: string): string => (answer === 'full' ? 'consumed' : answer)
      const user = (index: number): { did: string } => ({ did: `did:ethr:0x${index}` })
      for (const index of [1, 2, 3]) expect(await use(user(index)), 'consumed')
      const promise = 'A new challenge is consumed, or refused as full until a sweep'
      expect(orFull(await use(user(4))), 'consumed', promise)
      for (const index of [1, 2, 3]) {
        expect([await use(user(index)), await use({ ...user(index), useCount: 1 })], ['taken', 'consumed'])
      }
      // A store deletes entries when a sweep trusts the clock, which may be later.
      for (const index of [5, 6, 7]) {
        expect(orFull(await use({ ...nextWindow, ...user(index), at: 360 })), 'consumed', promise)
      }
    }
  ),

  storeCase('counts in a time slot that begins with the first charge', async ({ charge, expect }) => {
    const states = [await charge(), await charge({ at: 30 }), await charge({ at: 59 })]
    expect(
      states,
      Array.from({ length: 3 }, (_, index) => ({ isCharged: true, count: index + 1, endsAt: 60 }))
    )
    const promise = 'A count begins again in the second in which its slot ends'
    expect(await charge({ at: 60 }), { isCharged: true, count: 1, endsAt: 120 }, promise)
  }),
  storeCase('ends a slot that a fast clock began, once the clock is right', async (bench) => {
    await bench.charge({ at: YEAR_SECONDS, limit: 1 })
    const { isCharged, count } = await bench.charge({ limit: 1 })
    bench.expect([isCharged, count], [true, 1])
  }),
  storeCase('counts in a slot that ends at most two slots from now, as another clock may begin it', async (bench) => {
    await bench.charge({ at: 60 })
    bench.expect(await bench.charge(), { isCharged: true, count: 2, endsAt: 120 })
    await bench.charge({ key: anotherDid, at: 61 })
    bench.expect(await bench.charge({ key: anotherDid }), { isCharged: true, count: 1, endsAt: 60 })
  }),
  storeCase('adds the cost of a charge, also one of more than 32 bits', async ({ charge, expect }) => {
    const limit = 5_000_000_004
    const seen: unknown[] = []
    for (const details of [{ cost: 3 }, { cost: 5_000_000_000 }, { cost: 1, limit }, { cost: 1, limit }]) {
      const { isCharged, count } = await charge(details)
      seen.push(isCharged, count)
    }
    expect(seen, [true, 3, true, 5_000_000_003, true, limit, false, limit])
  }),
  storeCase('refuses a charge that would exceed the limit, and adds nothing', async ({ charge, expect }) => {
    const later = (cost: number): Promise<unknown> => charge({ cost, limit: 10, at: 30 })
    await charge({ cost: 6, limit: 10 })
    expect(await later(5), { isCharged: false, count: 6, endsAt: 60 })
    const full = { isCharged: true, count: 10, endsAt: 60 }
    expect(await later(4), full, 'A charge up to exactly the limit is accepted')
    expect(await later(1), { ...full, isCharged: false })
    const next = await charge({ cost: 10, limit: 10, at: 60 })
    expect(next, { ...full, endsAt: 120 }, 'The next slot begins with the whole limit')
  }),
  storeCase('begins no time slot by a refused charge', async ({ charge, expect }) => {
    const expectRefused = async (at: number): Promise<void> => {
      const { isCharged, count, endsAt } = await charge({ cost: 5, limit: 4, at })
      const promise = 'A cost above the limit is refused in an empty slot, which ends after at most one slot'
      expect([isCharged, count, at < endsAt && endsAt <= at + 60], [false, 0, true], promise)
    }
    await expectRefused(-30)
    expect(await charge(), { isCharged: true, count: 1, endsAt: 60 })
    await expectRefused(60)
    expect(await charge({ at: 65 }), { isCharged: true, count: 1, endsAt: 125 })
  }),
  storeCase('counts the charges of each key, kind and service separately', async ({ charge, expect }) => {
    await charge()
    for (const other of [{ key: anotherDid }, { kind: 'anonymous' as const }, { service: anotherService }]) {
      expect((await charge(other)).count, 1)
    }
    expect((await charge()).count, 2)
  }),
  storeCase('counts every one of 50 simultaneous charges', async ({ allAtOnce, expect }) => {
    const states = await allAtOnce(50, (store) => store.chargeQuota(createCharge()))
    const counts = states.map(({ count }) => count).sort((a, b) => a - b)
    expect(counts, [...Array(51).keys()].slice(1))
  }),
  storeCase(
    'accepts exactly 20 of 50 simultaneous charges with a limit of 20',
    async ({ allAtOnce, charge, expect }) => {
      const states = await allAtOnce(50, (store) => store.chargeQuota(createCharge({ limit: 20 })))
      expect(countAnswers(states.map(({ isCharged }) => String(isCharged))), { true: 20, false: 30 })
      const counts = [Math.max(...states.map(({ count }) => count)), (await charge()).count]
      expect(counts, [20, 21], 'Charges that the limit refuses are not counted')
    }
  ),
  storeCase('returns copies of its states', async ({ store, charge, expect }) => {
    tamper(await store.chargeQuota(createCharge()), { count: 100, resetsAtSeconds: 0 })
    tamper(await store.chargeQuota(createCharge()), { count: 100, resetsAtSeconds: 0 })
    expect((await charge()).count, 3)
  }),
  createBoundedCase("deletes no user's quota to store anonymous ones", { maxQuotas: 3 }, async ({ charge, expect }) => {
    await charge()
    for (let index = 0; index < 20; index += 1) {
      const anonymous = { kind: 'anonymous', key: String(index), at: index } as const
      const counts = [(await charge(anonymous)).count, (await charge(anonymous)).count]
      expect(counts, [1, 2], "A full store counts a stranger's charges in place of another stranger's")
    }
    expect((await charge()).count, 2)
  })
]
