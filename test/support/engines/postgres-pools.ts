import { openPool, type PostgresPool } from '../../../src/stores/postgres/postgres-pool.js'
import { until } from '../fixtures/until.js'
import { TEST_TIMEOUT_SECONDS } from './postgres-server.js'

/**
 * Pools of stores on one database. They stay open between tests, because a new connection costs as much as 30
 * statements. A pool that a test watches, breaks or configures is not one of these.
 */
export class KeptPools {
  readonly #url: string
  readonly #pools: PostgresPool[] = []
  #lent = 0

  constructor(url: string) {
    this.#url = url
  }

  /** Lends a pool to one store, with the defaults of `postgresStore`. */
  lend(): PostgresPool {
    const pool = (this.#pools[this.#lent] ??= this.#open())
    this.#lent += 1
    return pool
  }

  /** Waits until the stores use no connection, and makes all pools available to the next test. */
  async takeBack(): Promise<void> {
    await until(() => this.#pools.every(({ idleCount, totalCount }) => idleCount === totalCount))
    this.#lent = 0
  }

  async end(): Promise<void> {
    await Promise.all(this.#pools.splice(0).map((pool) => pool.end()))
  }

  #open(): PostgresPool {
    const pool = openPool(this.#url, { poolSize: 10, prepare: true, timeoutSeconds: TEST_TIMEOUT_SECONDS })
    // Each store adds a listener to the connections that it uses.
    const events = pool as unknown as { on(event: 'connect', listener: (client: Listening) => void): void }
    events.on('connect', (client) => client.setMaxListeners(0))
    return pool
  }
}

interface Listening {
  setMaxListeners(count: number): unknown
}
