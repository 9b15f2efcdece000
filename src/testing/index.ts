import { AssertionError } from 'node:assert/strict'
import type { Store } from '../ports.js'
import { countCases } from './count-cases.js'
import { rotationCases } from './rotation-cases.js'
import { sessionCases } from './session-cases.js'
import { createBench, type StoreBounds, type StoreUnderTest } from './store-case.js'

/** Makes an empty store for one case; called once per case. */
export type MakeStore = (bounds: StoreBounds) => Store | StoreUnderTest | Promise<Store | StoreUnderTest>

/** One promise of the Store port, and its proof. */
export interface ContractTest {
  name: string
  /** Rejects with an AssertionError, whose message is the sentence that is not true of the store. */
  run: () => Promise<void>
}

const cases = [...sessionCases, ...rotationCases, ...countCases]

/**
 * The suite that every store has to pass, for any test runner. A store of sessions, uses or quotas alone is filled up
 * by `combineStores` and `memoryStore()`.
 *
 * @param makeStore - with `another` in its result, the suite also proves that two instances may share the data
 * @example
 * describe('myStore', () => {
 *   for (const { name, run } of storeContract((bounds) => myStore(bounds))) it(name, run)
 * })
 */
export function storeContract(makeStore: MakeStore): ContractTest[] {
  return cases.map(({ name, bounds, test }) => ({
    name,
    run: async () => {
      const made = await makeStore(bounds)
      const { store, another, remove }: StoreUnderTest = 'createSession' in made ? { store: made } : made
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
  const message = `A store that can work rejects no call, and answers in the type of the port: got ${String(error)}`
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
