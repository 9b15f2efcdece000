import type { StoreLifecycle } from '../../ports.js'
import type { RedisConnection } from './redis-connection.js'
import type { RedisKeys } from './redis-keys.js'

/** How long Redis keeps what a ping wrote. */
const PING_MILLISECONDS = 60_000

/** What the parts of a Redis store have in common. */
export class RedisPart implements StoreLifecycle {
  readonly connection: RedisConnection
  readonly keys: RedisKeys

  constructor(connection: RedisConnection, keys: RedisKeys) {
    this.connection = connection
    this.keys = keys
  }

  /** Resolves when Redis took a write: one that is full answers PING as ever. */
  async ping(): Promise<void> {
    const { pinged } = this.keys
    await this.connection.verb((send) => send(pinged, ['SET', pinged, '', 'PX', String(PING_MILLISECONDS)]))
  }

  close(): Promise<void> {
    this.connection.close()
    return Promise.resolve()
  }
}
