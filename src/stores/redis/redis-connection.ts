import { assertNoCluster } from './durability.js'
import { prepareClient, type OwnClient } from './open-client.js'
import { assertRedisSource, type RedisClient, type RedisCluster, type RedisSource, type Send } from './redis-source.js'

export type { Send }

/** Milliseconds for a verb with all that it sends: below the 5 s of `withTimeout`. */
const VERB_MILLISECONDS = 3_500
/** Verbs that wait for Redis at a time; one more is rejected at once. It bounds the queue of commands as well. */
const MAX_PENDING = 10_000
/** Milliseconds between two attempts to connect. */
const RETRY_MILLISECONDS = 100

/** A client, and the promise that it can be used. */
interface Channel {
  readonly ready: Promise<Send>
  /** Undefined for a client that was passed in. */
  readonly client: OwnClient | undefined
  readonly openedAt: number
  /** Verbs in flight. */
  pending: number
  isLost: boolean
}

/**
 * The way to Redis. A verb that gets no answer is rejected within 3.5 s.
 *
 * With a URL, a connection that was lost or is silent is replaced by the next verb; what is in flight on the old one may
 * still end. A client that was passed in takes care of its own connections.
 */
export class RedisConnection {
  readonly #newClient: (() => OwnClient) | undefined
  readonly #given: Send | undefined
  readonly #onConnect: (send: Send) => Promise<void>
  #channel: Channel | undefined
  #pending = 0
  #isClosed = false

  /**
   * @param onConnect - called with each new connection before verbs use it; a rejection rejects them
   * @throws TypeError when the source is neither a URL nor a client; Error when the package `redis` is not installed
   */
  constructor(source: RedisSource, onConnect: (send: Send) => Promise<void> = () => Promise.resolve()) {
    this.#onConnect = onConnect
    assertRedisSource(source)
    if (typeof source === 'string') this.#newClient = prepareClient(source)
    else this.#given = senderOf(source)
  }

  /**
   * Runs one verb of a store: any number of commands on one connection, within 3.5 s.
   *
   * @throws Error when Redis is unavailable or too slow, or refuses a command
   */
  async verb<T>(work: (send: Send) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new Error('the Redis store is closed')
    if (this.#pending >= MAX_PENDING) throw new Error(`${String(MAX_PENDING)} calls wait for Redis`)
    const channel = this.#current()
    this.#pending += 1
    channel.pending += 1
    try {
      return await withinTime(channel.ready.then(work))
    } catch (error) {
      channel.isLost ||= isConnectionLost(error)
      throw error
    } finally {
      this.#pending -= 1
      channel.pending -= 1
      this.#endReplaced(channel)
    }
  }

  /** Ends the connections that were opened here. Verbs in flight are rejected. */
  close(): void {
    this.#isClosed = true
    endClient(this.#channel?.client)
    this.#channel = undefined
  }

  #current(): Channel {
    const channel = this.#channel
    const isGood = channel !== undefined && !channel.isLost
    if (isGood || (channel !== undefined && performance.now() - channel.openedAt < RETRY_MILLISECONDS)) return channel
    this.#channel = this.#open()
    if (channel !== undefined) this.#endReplaced(channel)
    return this.#channel
  }

  #open(): Channel {
    const client = this.#newClient?.()
    const ready = client === undefined ? this.#prepare(this.#given) : this.#connect(client)
    const channel: Channel = { ready, client, openedAt: performance.now(), pending: 0, isLost: false }
    // An error event that has no listener would end the process. A cluster's client opens its nodes again by itself.
    client?.on('error', () => {
      channel.isLost ||= !('masters' in client)
    })
    ready.catch(() => {
      channel.isLost = true
    })
    return channel
  }

  async #connect(client: OwnClient): Promise<Send> {
    await client.connect()
    const send = senderOf(client)
    if (!('masters' in client)) await assertNoCluster(send)
    return this.#prepare(send)
  }

  async #prepare(send: Send | undefined): Promise<Send> {
    if (send === undefined) throw new Error('no client')
    await this.#onConnect(send)
    return send
  }

  #endReplaced(channel: Channel): void {
    if (channel !== this.#channel && channel.pending === 0) endClient(channel.client)
  }
}

function senderOf(client: RedisClient | RedisCluster): Send {
  if ('masters' in client) return (key, args) => client.sendCommand(key, false, [...args])
  return (_key, args) => client.sendCommand([...args])
}

function endClient(client: OwnClient | undefined): void {
  try {
    client?.destroy()
  } catch {
    // It has ended before.
  }
}

async function withinTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const expired = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      reject(new Error(`Redis did not answer within ${String(VERB_MILLISECONDS)} ms`))
    }, VERB_MILLISECONDS)
  })
  try {
    return await Promise.race([work, expired])
  } finally {
    clearTimeout(timer)
  }
}

/** Redis's own refusals begin with a code in capitals. After a failover the old primary answers READONLY. */
function isConnectionLost(error: unknown): boolean {
  const message = error instanceof Error ? error.message : String(error)
  return !/^[A-Z]+ /.test(message) || message.startsWith('READONLY')
}
