import type { Store } from './ports.js'
import { challengeUseCases } from './testing/challenge-use-cases.js'
import { quotaCases } from './testing/quota-cases.js'
import { rotationCases } from './testing/rotation-cases.js'
import { sessionCases } from './testing/session-cases.js'
import type { StoreBounds, StoreUnderTest } from './testing/store-case.js'

/** Makes an empty store for one case; called once per case. */
export type MakeStore = (bounds: StoreBounds) => Store | StoreUnderTest | Promise<Store | StoreUnderTest>

/** One promise of the Store port, and its proof. */
export interface ContractTest {
  name: string
  /** Rejects with an AssertionError when the promise is not kept. */
  run: () => Promise<void>
}

/**
 * The suite that every store has to pass, for any test runner.
 *
 * @param makeStore - makes an empty store; with `another`, the suite also proves that two instances may share the data
 * @example
 * ```ts
 * describe('myStore', () => {
 *   for (const { name, run } of storeContract(() => myStore())) it(name, run)
 * })
 * ```
 */
export function storeContract(makeStore: MakeStore): ContractTest[] {
  const cases = [...sessionCases, ...rotationCases, ...challengeUseCases, ...quotaCases]
  return cases.map(({ name, bounds, test }) => ({
    name,
    run: async () => {
      const made = await makeStore(bounds)
      const { store, another, remove }: StoreUnderTest = 'createSession' in made ? { store: made } : made
      try {
        await test({ store, other: another ?? store })
      } finally {
        await another?.close()
        await store.close()
        await remove?.()
      }
    }
  }))
}

export type { StoreBounds, StoreUnderTest } from './testing/store-case.js'
export type {
  ChallengeFlow,
  ChallengeUse,
  ChallengeUseKey,
  NewSession,
  QuotaCharge,
  QuotaState,
  Rotation,
  Store
} from './ports.js'
export type { JsonObject, JsonValue } from './protocol/json.js'
export type { RefreshVerdict, Session } from './protocol/session.js'
