import { createHash } from 'node:crypto'
import type { StoreLifecycle } from '../../ports.js'
import { within } from '../../time.js'
import { limitMilliseconds } from '../../time-limits.js'
import { assertNoCluster, assertRedisSource, createClientFactory, createSender } from './redis-source.js'
import type { OwnClient, RedisSource, Send } from './redis-source.js'

const { redisVerb: VERB_MILLISECONDS, redisReplicas: WAIT_MILLISECONDS } = limitMilliseconds
/** Maximum number of verbs in flight; further ones are rejected at once. It also bounds the queue of commands. */
const MAX_PENDING = 10_000
/** Lifetime of the key that a ping writes. */
const PING_MILLISECONDS = 60_000

/** A Lua script. It is one verb and atomic. In a cluster, all its keys must be in one slot. */
export type RedisScript = { readonly text: string; readonly sha1: string }

type Arguments = readonly (string | number)[]

export function createRedisScript(text: string): RedisScript {
  return { text, sha1: createHash('sha1').update(text).digest('hex') }
}

export interface RedisConnectionOptions {
  /** Prefix of all keys. Default: `eda:`. */
  readonly keyPrefix?: string | undefined
  /** Number of replicas that must have received a write. Default 0. */
  readonly waitReplicas?: number
  /** CA certificates that verify the server, as PEM text. */
  readonly ca?: string | undefined
  /** Called with each new connection before verbs use it. If it rejects, so do these verbs. */
  readonly onConnect?: (send: Send) => Promise<void>
}

/** A client and its state. */
interface Channel {
  /** Resolves when the client is connected and prepared. */
  readonly ready: Promise<Send>
  /** Client that this store has created; undefined if the caller passed one in. */
  readonly client: OwnClient | undefined
  /** Milliseconds by `performance.now`. */
  readonly openedAt: number
  /** Verbs in flight. */
  pending: number
  isLost: boolean
  /** The running wait for replicas, and the next one, which begins after it. */
  running: Promise<void>
  next: Promise<void> | undefined
}

/**
 * A connection to Redis. A verb without an answer is rejected after 3.5 s. With a URL, the next verb replaces a lost or
 * silent connection, on which verbs in flight may still complete. A client that was passed in reconnects on its own.
 */
export class RedisConnection implements StoreLifecycle {
  readonly #prefix: string
  readonly #open: () => Pick<Channel, 'ready' | 'client'>
  readonly #replicas: number
  #channel: Channel | undefined
  #pending = 0
  #isClosed = false

  /** @throws TypeError if the source is neither URL nor client; Error if the package `redis` is not installed */
  constructor(
    source: RedisSource,
    { keyPrefix = 'eda:', waitReplicas = 0, ca, onConnect = () => Promise.resolve() }: RedisConnectionOptions = {}
  ) {
    assertRedisSource(source)
    this.#prefix = keyPrefix
    this.#replicas = waitReplicas
    const prepare = (send: Send): Promise<Send> => onConnect(send).then(() => send)
    if (typeof source !== 'string') {
      this.#open = () => ({ client: undefined, ready: prepare(createSender(source)) })
      return
    }
    const newClient = createClientFactory(source, ca)
    this.#open = () => {
      const client = newClient()
      return { client, ready: connect(client).then(prepare) }
    }
  }

  /** Sends one command on a key. @throws Error if Redis is unavailable or too slow, or refuses the command */
  send(command: string, key: string, ...args: readonly string[]): Promise<unknown> {
    return this.#verb((send) => send(this.#prefix + key, [command, this.#prefix + key, ...args]))
  }

  /** Runs a script on a key. @throws Error if Redis is unavailable or too slow, or refuses the script */
  run(script: RedisScript, key: string, args: Arguments): Promise<unknown> {
    return this.#verb((send) => runScript(send, script, [this.#prefix + key], args))
  }

  /**
   * Runs a script that writes to a key, or to several. @throws Error as `run`, or if too few replicas have received the
   * write, which then is still on the primary
   */
  write(script: RedisScript, key: string, args: Arguments, otherKeys: readonly string[] = []): Promise<unknown> {
    return this.#verb(async (send, channel) => {
      const keys = [key, ...otherKeys].map((name) => this.#prefix + name)
      const answer = await runScript(send, script, keys, args)
      if (this.#replicas > 0) await this.#waitForReplicas(send, channel)
      return answer
    })
  }

  /** Resolves when Redis has accepted a write. PING would also succeed on a full Redis. */
  async ping(): Promise<void> {
    await this.send('SET', 'ping', '', 'PX', String(PING_MILLISECONDS))
  }

  /** Closes the connection if this store has opened it, and rejects verbs in flight. */
  async close(): Promise<void> {
    this.#isClosed = true
    endClient(this.#channel)
    this.#channel = undefined
  }

  /** Runs a verb: any number of commands on one connection. */
  async #verb<T>(work: (send: Send, channel: Channel) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new Error('the Redis store is closed')
    if (this.#pending >= MAX_PENDING) throw new Error(`${String(MAX_PENDING)} calls wait for Redis`)
    const channel = this.#getChannel()
    this.#pending += 1
    channel.pending += 1
    try {
      const answer = channel.ready.then((send) => work(send, channel))
      return await within(VERB_MILLISECONDS, answer, createTimeoutError)
    } catch (error) {
      channel.isLost ||= isConnectionLost(error)
      throw error
    } finally {
      this.#pending -= 1
      channel.pending -= 1
      this.#endReplaced(channel)
    }
  }

  /** Returns the current channel, or replaces it if it is lost. */
  #getChannel(): Channel {
    const current = this.#channel
    const isRecent = current !== undefined && performance.now() - current.openedAt < limitMilliseconds.redisRetry
    if (current !== undefined && (!current.isLost || isRecent)) return current
    const waits = { running: Promise.resolve(), next: undefined }
    const channel: Channel = { ...this.#open(), openedAt: performance.now(), pending: 0, isLost: false, ...waits }
    const { client } = channel
    // An error event without a listener would end the process. A cluster's client reopens its nodes on its own.
    client?.on('error', () => {
      channel.isLost ||= !('masters' in client)
    })
    channel.ready.catch(() => (channel.isLost = true))
    this.#channel = channel
    if (current !== undefined) this.#endReplaced(current)
    return channel
  }

  #endReplaced(channel: Channel): void {
    if (channel !== this.#channel && channel.pending === 0) endClient(channel)
  }

  /** Waits for replicas. WAIT blocks its connection and covers all earlier writes on it, so verbs share one WAIT. */
  #waitForReplicas(send: Send, channel: Channel): Promise<void> {
    channel.next ??= channel.running.then(() => {
      const wait = this.#wait(send)
      channel.next = undefined
      channel.running = wait.catch(() => undefined)
      return wait
    })
    return channel.next
  }

  async #wait(send: Send): Promise<void> {
    const count = Number(await send(undefined, ['WAIT', String(this.#replicas), String(WAIT_MILLISECONDS)]))
    if (count >= this.#replicas) return
    throw new Error(`NOREPLICAS ${String(count)} of ${String(this.#replicas)} replicas have the write`)
  }
}

async function connect(client: OwnClient): Promise<Send> {
  await client.connect()
  const send = createSender(client)
  if (!('masters' in client)) await assertNoCluster(send)
  return send
}

function endClient(channel: Channel | undefined): void {
  try {
    channel?.client?.destroy()
  } catch {
    // The client is closed already.
  }
}

/** Runs a script by its hash. If Redis has not cached the script, as after a restart, sends its text. */
async function runScript(
  send: Send,
  { text, sha1 }: RedisScript,
  keys: readonly string[],
  args: Arguments
): Promise<unknown> {
  const [key] = keys
  const keysAndArgs = [String(keys.length), ...keys, ...args.map(String)]
  try {
    return await send(key, ['EVALSHA', sha1, ...keysAndArgs])
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
    return send(key, ['EVAL', text, ...keysAndArgs])
  }
}

function createTimeoutError(): Error {
  return new Error(`Redis did not answer within ${String(VERB_MILLISECONDS)} ms`)
}

/**
 * Whether the connection is unusable. Errors of Redis itself begin with a code in capitals and leave it usable, except
 * for READONLY, which a former primary answers.
 */
function isConnectionLost(error: unknown): boolean {
  const message = error instanceof Error ? error.message : String(error)
  return !/^[A-Z]+ /.test(message) || message.startsWith('READONLY')
}
