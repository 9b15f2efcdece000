import pg from 'pg'
import type { PostgresClient, PostgresPool } from 'express-did-auth/stores/postgres'

/** A pool of pg whose statements are counted, and whose answers may be lost. */
export interface WatchedPool extends PostgresPool {
  readonly sent: string[]
  /** How often statements were sent while no answer was awaited. */
  trips: number
  /** Begins to count again. */
  reset(): void
  /** The answer to the next statement with this text is lost: it was done, and its connection breaks. */
  loseAnswerTo: string | undefined
}

/** Makes a pool of the real pg, pipelined as that of the store is. */
export function watchedPool(url: string): WatchedPool {
  // Newer than the types of pg.
  const settings: pg.PoolConfig & { pipeline: boolean } = { connectionString: url, max: 4, pipeline: true }
  const pool = new pg.Pool(settings)
  const watched = new WeakSet()
  let awaited = 0
  const connect = async (): Promise<PostgresClient> => {
    // The structure that the store asks of pg.
    const client = (await pool.connect()) as unknown as PostgresClient
    if (watched.has(client)) return client
    watched.add(client)
    const query = client.query.bind(client)
    client.query = async (statement) => {
      result.sent.push(statement.name ?? statement.text)
      if (awaited === 0) result.trips += 1
      awaited += 1
      try {
        const answer = await query(statement)
        if (statement.text !== result.loseAnswerTo) return answer
        result.loseAnswerTo = undefined
        throw new Error('Connection terminated unexpectedly')
      } finally {
        awaited -= 1
      }
    }
    return client
  }
  const result: WatchedPool = {
    sent: [],
    trips: 0,
    loseAnswerTo: undefined,
    reset: () => {
      result.sent.length = 0
      result.trips = 0
    },
    get totalCount() {
      return pool.totalCount
    },
    get idleCount() {
      return pool.idleCount
    },
    connect,
    end: () => pool.end(),
    on: (event, listener) => pool.on(event, listener)
  }
  return result
}
