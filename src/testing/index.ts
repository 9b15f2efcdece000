import { AssertionError } from 'node:assert/strict'
import type { Store } from '../ports.js'
import { countCases } from './count-cases.js'
import { endedCases } from './ended-cases.js'
import { rotationCases } from './rotation-cases.js'
import { sessionCases } from './session-cases.js'
import { createBench, type StoreBounds, type StoreUnderTest } from './store-case.js'

/** Creates an empty store. It is called once per test. */
export type MakeStore = (bounds: StoreBounds) => Store | StoreUnderTest | Promise<Store | StoreUnderTest>

/** One test of the contract of stores. */
export interface ContractTest {
  /** Behaviour that the test proves, such as `finds a new session by its id`. */
  name: string
  /** Runs the test. It rejects with an AssertionError whose message is the sentence that the store violates. */
  run: () => Promise<void>
}

const cases = [...sessionCases, ...rotationCases, ...endedCases, ...countCases]

/**
 * Returns the suite that every store has to pass, for any test runner. To test a store that implements only sessions,
 * challenge uses or quotas, complete it by `combineStores` and `memoryStore()`.
 *
 * @param makeStore - creates the store; if the result has `another`, the suite also tests that instances share data
 * @example
 * describe('myStore', () => {
 *   for (const { name, run } of storeContract((bounds) => myStore(bounds))) it(name, run)
 * })
 */
export function storeContract(makeStore: MakeStore): ContractTest[] {
  return cases.map(({ name, bounds, test }) => ({
    name,
    run: async () => {
      const result = await makeStore(bounds)
      const { store, another, remove }: StoreUnderTest = 'createSession' in result ? { store: result } : result
      try {
        await test(createBench(store, another ?? store, name))
      } catch (error) {
        throw error instanceof AssertionError ? error : createRejectionError(error)
      } finally {
        await another?.close()
        await store.close()
        await remove?.()
      }
    }
  }))
}

function createRejectionError(error: unknown): AssertionError {
  const message = `An available store rejects no call, and returns values of the right types: got ${String(error)}`
  return Object.assign(new AssertionError({ message, operator: 'rejects' }), { cause: error })
}

export { wallet, TestWallet, WalletError, type WalletInfo, type WalletOptions, type WalletRequest } from './wallet.js'
export { signedIn, type AppUnderTest, type SignedInFetch, type SignedInOptions } from './signed-in.js'
export { accessTokenFor, fakeClock, quietLogger, testConfig } from './test-service.js'
export type { FakeClock, TestConfig, TokenService } from './test-service.js'
export { walletScript, type PageWallet, type WalletScript, type WalletScriptOptions } from './wallet-script.js'
export type { StoreBounds, StoreUnderTest } from './store-case.js'
export type { Clock, Logger, Signer } from '../ports.js'
export type * from '../stores/port-types.js'
