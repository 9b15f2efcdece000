import type { PostgresPool } from '../../src/stores/postgres/index.js'

/** A pool that counts the statements which are sent through it: each is one round trip. */
export interface CountingPool extends PostgresPool {
  statements: number
}

/** Counts the statements of a pool. */
export function countingPool(pool: PostgresPool): CountingPool {
  const counted = new WeakSet()
  return {
    statements: 0,
    get totalCount() {
      return pool.totalCount
    },
    get idleCount() {
      return pool.idleCount
    },
    async connect() {
      const client = await pool.connect()
      if (!counted.has(client)) {
        counted.add(client)
        const query = client.query.bind(client)
        client.query = (statement) => {
          this.statements += 1
          return query(statement)
        }
      }
      return client
    },
    end: () => pool.end(),
    on: (event, listener) => pool.on(event, listener)
  }
}
