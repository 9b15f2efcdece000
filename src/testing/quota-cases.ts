import { deepEqual, equal } from 'node:assert/strict'
import {
  allAtOnce,
  anotherDid,
  anotherService,
  chargeOf,
  storeCase,
  START_SECONDS,
  type StoreCase
} from './store-case.js'

const END_SECONDS = START_SECONDS + 60

/** Requests counted in time slots. */
export const quotaCases: StoreCase[] = [
  storeCase('counts requests in a time slot that begins with the first one', async ({ store, other }) => {
    deepEqual(await store.chargeQuota(chargeOf()), { count: 1, resetsAtSeconds: END_SECONDS })
    const later = chargeOf({ nowSeconds: START_SECONDS + 30 })
    deepEqual(await other.chargeQuota(later), { count: 2, resetsAtSeconds: END_SECONDS })
    deepEqual(await store.chargeQuota(later), { count: 3, resetsAtSeconds: END_SECONDS })
  }),
  storeCase('begins again in the second in which the slot ends', async ({ store }) => {
    await store.chargeQuota(chargeOf())
    equal((await store.chargeQuota(chargeOf({ nowSeconds: END_SECONDS - 1 }))).count, 2)
    const next = { count: 1, resetsAtSeconds: END_SECONDS + 60 }
    deepEqual(await store.chargeQuota(chargeOf({ nowSeconds: END_SECONDS })), next)
  }),
  storeCase('only reads at cost 0, and begins no slot by it', async ({ store }) => {
    const read = (nowSeconds: number): Promise<unknown> => store.chargeQuota(chargeOf({ cost: 0, nowSeconds }))
    deepEqual(await read(START_SECONDS - 30), { count: 0, resetsAtSeconds: START_SECONDS + 30 })
    await store.chargeQuota(chargeOf())
    deepEqual(await read(END_SECONDS - 1), { count: 1, resetsAtSeconds: END_SECONDS })
    deepEqual(await read(END_SECONDS), { count: 0, resetsAtSeconds: END_SECONDS + 60 })
    equal((await store.chargeQuota(chargeOf({ nowSeconds: END_SECONDS - 1 }))).count, 2)
  }),
  storeCase('counts for each key, kind and service apart', async ({ store }) => {
    await store.chargeQuota(chargeOf())
    const others = [{ key: anotherDid }, { kind: 'naming' as const }, { service: anotherService }]
    for (const other of others) equal((await store.chargeQuota(chargeOf(other))).count, 1)
    equal((await store.chargeQuota(chargeOf())).count, 2)
  }),
  storeCase('loses no request of 50 that come at once', async (stores) => {
    const states = await allAtOnce(stores, 50, (store) => store.chargeQuota(chargeOf()))
    deepEqual(
      states.map(({ count }) => count).sort((a, b) => a - b),
      Array.from({ length: 50 }, (_, index) => index + 1)
    )
  }),
  storeCase('gives a state away that nobody can change it through', async ({ store }) => {
    Object.assign(await store.chargeQuota(chargeOf()), { count: 100 })
    Object.assign(await store.chargeQuota(chargeOf()), { count: 100 })
    equal((await store.chargeQuota(chargeOf())).count, 3)
  }),
  storeCase(
    "lets strangers' quotas push out no user's",
    async ({ store }) => {
      await store.chargeQuota(chargeOf())
      for (let index = 0; index < 20; index += 1) {
        const naming = chargeOf({ kind: 'naming', key: String(index), nowSeconds: START_SECONDS + index })
        equal((await store.chargeQuota(naming)).count, 1)
        equal((await store.chargeQuota(naming)).count, 2)
      }
      equal((await store.chargeQuota(chargeOf())).count, 2)
    },
    { maxQuotas: 3 }
  )
]
