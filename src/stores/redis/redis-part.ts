import type { StoreLifecycle } from '../../ports.js'
import type { RedisConnection } from './redis-connection.js'

/** What the parts of a Redis store have in common. */
export class RedisPart implements StoreLifecycle {
  readonly connection: RedisConnection

  constructor(connection: RedisConnection) {
    this.connection = connection
  }

  async ping(): Promise<void> {
    await this.connection.verb((send) => send(undefined, ['PING']))
  }

  close(): Promise<void> {
    this.connection.close()
    return Promise.resolve()
  }
}
