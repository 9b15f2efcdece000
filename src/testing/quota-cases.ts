import { expectAnswer, tally, tamper } from './expect-answer.js'
import {
  allAtOnce,
  anotherDid,
  anotherService,
  chargeOf,
  START_SECONDS,
  storeCase,
  type StoreCase
} from './store-case.js'

const END_SECONDS = START_SECONDS + 60

/** Requests and bytes counted in time slots, up to a limit. */
export const quotaCases: StoreCase[] = [
  storeCase('counts in a time slot that begins with the first charge', async ({ store, other }) => {
    const later = chargeOf({ nowSeconds: START_SECONDS + 30 })
    const states = [
      { ...(await store.chargeQuota(chargeOf())) },
      { ...(await other.chargeQuota(later)) },
      { ...(await store.chargeQuota(later)) }
    ]
    const expected = [1, 2, 3].map((count) => ({ isCharged: true, count, resetsAtSeconds: END_SECONDS }))
    expectAnswer(
      states,
      expected,
      'All instances count in one slot, which ends as long after its first charge as it lasts'
    )
  }),
  storeCase('treats a slot that a clock which ran ahead began as ended, once the clock is right', async ({ store }) => {
    const year = 31_536_000
    await store.chargeQuota(chargeOf({ nowSeconds: START_SECONDS + year, limit: 1 }))
    const { isCharged, count } = await store.chargeQuota(chargeOf({ limit: 1 }))
    const promise = 'A slot that ends later than two slots from now refuses no user'
    expectAnswer({ isCharged, count }, { isCharged: true, count: 1 }, promise)
  }),
  storeCase('begins again in the second in which the slot ends', async ({ store }) => {
    await store.chargeQuota(chargeOf())
    const last = { ...(await store.chargeQuota(chargeOf({ nowSeconds: END_SECONDS - 1 }))) }
    const same = { isCharged: true, count: 2, resetsAtSeconds: END_SECONDS }
    expectAnswer(last, same, 'A charge in the last second of a slot counts in that slot')
    const first = { ...(await store.chargeQuota(chargeOf({ nowSeconds: END_SECONDS }))) }
    const next = { isCharged: true, count: 1, resetsAtSeconds: END_SECONDS + 60 }
    expectAnswer(first, next, 'A charge in the second in which a slot ends begins the next one')
  }),
  storeCase('adds the cost of a charge, also one of more than 32 bits', async ({ store }) => {
    const states = [
      await store.chargeQuota(chargeOf({ cost: 3 })),
      await store.chargeQuota(chargeOf({ cost: 5_000_000_000 })),
      await store.chargeQuota(chargeOf({ cost: 1, limit: 5_000_000_004 })),
      await store.chargeQuota(chargeOf({ cost: 1, limit: 5_000_000_004 }))
    ]
    const seen = states.map(({ isCharged, count }) => [isCharged, count])
    const counts = [
      [true, 3],
      [true, 5_000_000_003],
      [true, 5_000_000_004],
      [false, 5_000_000_004]
    ]
    expectAnswer(seen, counts, 'A charge adds its cost, an integer of up to 53 bits')
  }),
  storeCase('refuses what would lift the count above the limit, and adds nothing then', async ({ store, other }) => {
    const charge = async (cost: number): Promise<unknown> => ({
      ...(await other.chargeQuota(chargeOf({ cost, limit: 10, nowSeconds: START_SECONDS + 30 })))
    })
    await store.chargeQuota(chargeOf({ cost: 6, limit: 10 }))
    const state = { isCharged: true, count: 6, resetsAtSeconds: END_SECONDS }
    const promise = 'A charge that would lift the count above the limit is refused and adds nothing'
    expectAnswer(await charge(5), { ...state, isCharged: false }, promise)
    expectAnswer(await charge(4), { ...state, count: 10 }, 'A charge that lifts the count exactly to the limit is good')
    expectAnswer(await charge(1), { ...state, isCharged: false, count: 10 }, promise)
    const next = { isCharged: true, count: 10, resetsAtSeconds: END_SECONDS + 60 }
    const again = { ...(await store.chargeQuota(chargeOf({ cost: 10, limit: 10, nowSeconds: END_SECONDS }))) }
    expectAnswer(again, next, 'The next slot begins with the whole limit')
  }),
  storeCase('begins no slot by a charge that it refuses', async ({ store }) => {
    const isRefused = async (nowSeconds: number): Promise<unknown> => {
      const { isCharged, count, resetsAtSeconds } = await store.chargeQuota(chargeOf({ cost: 5, limit: 4, nowSeconds }))
      const isInTime = nowSeconds < resetsAtSeconds && resetsAtSeconds <= nowSeconds + 60
      return { isCharged, count, isInTime }
    }
    const refused = { isCharged: false, count: 0, isInTime: true }
    const promise = 'A cost above the limit is refused in an empty slot, whose end lies at most a slot ahead'
    expectAnswer(await isRefused(START_SECONDS - 30), refused, promise)
    const first = { ...(await store.chargeQuota(chargeOf())) }
    const begun = { isCharged: true, count: 1, resetsAtSeconds: END_SECONDS }
    expectAnswer(first, begun, 'A slot begins with the first charge that is not refused')
    expectAnswer(await isRefused(END_SECONDS), refused, promise)
    const late = { ...(await store.chargeQuota(chargeOf({ nowSeconds: END_SECONDS + 5 }))) }
    const next = { isCharged: true, count: 1, resetsAtSeconds: END_SECONDS + 65 }
    expectAnswer(late, next, 'A slot that is over is not begun again by a charge that is refused')
  }),
  storeCase('counts for each key, kind and service apart', async ({ store }) => {
    await store.chargeQuota(chargeOf())
    for (const other of [{ key: anotherDid }, { kind: 'anonymous' as const }, { service: anotherService }]) {
      const { count } = await store.chargeQuota(chargeOf(other))
      expectAnswer(count, 1, `A charge does not count for another ${Object.keys(other).join()}`)
    }
    expectAnswer((await store.chargeQuota(chargeOf())).count, 2, 'Charges of others do not count')
  }),
  storeCase('loses no charge of 50 that come at once', async (stores) => {
    const states = await allAtOnce(stores, 50, (store) => store.chargeQuota(chargeOf()))
    const counts = states.map(({ count }) => count).sort((a, b) => a - b)
    const expected = Array.from({ length: 50 }, (_, index) => index + 1)
    expectAnswer(counts, expected, 'Each of 50 simultaneous charges is told another count, up to 50')
  }),
  storeCase('charges exactly 20 of 50 that come at once with a limit of 20', async (stores) => {
    const states = await allAtOnce(stores, 50, (store) => store.chargeQuota(chargeOf({ limit: 20 })))
    const charged = tally(states.map(({ isCharged }) => (isCharged ? 'charged' : 'refused')))
    expectAnswer(charged, { charged: 20, refused: 30 }, 'Of 50 simultaneous charges as many are good as the limit says')
    const highest = Math.max(...states.map(({ count }) => count))
    expectAnswer(highest, 20, 'The count of refused charges is not above the limit')
    const { count } = await stores.store.chargeQuota(chargeOf())
    expectAnswer(count, 21, 'Refused charges are not counted')
  }),
  storeCase('answers copies of its states', async ({ store }) => {
    tamper(await store.chargeQuota(chargeOf()), { count: 100, resetsAtSeconds: 0 })
    tamper(await store.chargeQuota(chargeOf()), { count: 100, resetsAtSeconds: 0 })
    const { count } = await store.chargeQuota(chargeOf())
    expectAnswer(count, 3, 'A count does not change when an object changes that was answered')
  }),
  storeCase(
    "lets strangers' quotas push out no user's",
    async ({ store }) => {
      await store.chargeQuota(chargeOf())
      for (let index = 0; index < 20; index += 1) {
        const anonymous = chargeOf({ kind: 'anonymous', key: String(index), nowSeconds: START_SECONDS + index })
        const counts = [(await store.chargeQuota(anonymous)).count, (await store.chargeQuota(anonymous)).count]
        expectAnswer(counts, [1, 2], "A full store counts a stranger's charges in place of another stranger's")
      }
      const { count } = await store.chargeQuota(chargeOf())
      expectAnswer(count, 2, "No number of anonymous quotas makes a store forget a user's")
    },
    { maxQuotas: 3 }
  )
]
