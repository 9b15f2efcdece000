import { AsyncLocalStorage } from 'node:async_hooks'
import { TestEnvironment } from 'jest-environment-node'

const { run } = AsyncLocalStorage.prototype

/**
 * Environment of each test file. Jest's runner creates an AsyncLocalStorage for each file, and leaves it enabled. Before
 * Node 24, each enabled storage makes every later `await` of the process slower. This environment disables the runner's.
 */
export default class extends TestEnvironment {
  #storages = new Set()
  #runnerStorage

  /** Finds the storage of the runner: the one that holds a test at its start. */
  handleTestEvent({ name, test }) {
    const storages = this.#storages
    if (name === 'run_start') {
      AsyncLocalStorage.prototype.run = function (...args) {
        storages.add(this)
        return run.apply(this, args)
      }
    } else if (name === 'test_start' && this.#runnerStorage === undefined) {
      AsyncLocalStorage.prototype.run = run
      this.#runnerStorage = [...storages].find((storage) => storage.getStore()?.test === test)
      storages.clear()
    }
  }

  async teardown() {
    AsyncLocalStorage.prototype.run = run
    this.#runnerStorage?.disable()
    await super.teardown()
  }
}
