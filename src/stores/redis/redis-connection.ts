import { createHash } from 'node:crypto'
import type { StoreLifecycle } from '../../ports.js'
import { within } from '../../time.js'
import { assertNoCluster, assertRedisSource, prepareClient, createSender } from './redis-source.js'
import type { OwnClient, RedisSource, Send } from './redis-source.js'

/** Milliseconds for a verb with all that it sends: below the 5 s that a verb of a store has. */
const VERB_MILLISECONDS = 3_500
/** Verbs that wait for Redis at a time; one more is rejected at once. It bounds the queue of commands as well. */
const MAX_PENDING = 10_000
/** Pause between two attempts to connect. */
const RETRY_MILLISECONDS = 100
/** Time limit for Redis to wait for its replicas. */
const WAIT_MILLISECONDS = 1_000
/** Lifetime of the key that a ping writes. */
const PING_MILLISECONDS = 60_000

/** A Lua script of one key: one verb, atomic, and at home in a cluster. */
export type RedisScript = { readonly text: string; readonly sha1: string }

type Arguments = readonly (string | number)[]

export function createRedisScript(text: string): RedisScript {
  return { text, sha1: createHash('sha1').update(text).digest('hex') }
}

export interface RedisConnectionOptions {
  /** Default: `eda:`. */
  readonly keyPrefix?: string | undefined
  /** Number of replicas that must have received a write. Default 0. */
  readonly waitReplicas?: number
  /** Called with each new connection before verbs use it; a rejection rejects them. */
  readonly onConnect?: (send: Send) => Promise<void>
}

/** A client, and the promise that it can be used. */
interface Channel {
  readonly ready: Promise<Send>
  /** Client of this connection; undefined if it was passed in. */
  readonly client: OwnClient | undefined
  readonly openedAt: number
  /** Verbs in flight. */
  pending: number
  isLost: boolean
  /** The wait for replicas that runs, and the one that begins after it. */
  running: Promise<void>
  next: Promise<void> | undefined
}

/**
 * A verb that gets no answer is rejected within 3.5 s. With a URL, the next verb replaces a lost or silent connection;
 * what is in flight on it may still end. A client that was passed in reconnects by itself.
 */
export class RedisConnection implements StoreLifecycle {
  readonly #prefix: string
  readonly #open: () => Pick<Channel, 'ready' | 'client'>
  readonly #replicas: number
  #channel: Channel | undefined
  #pending = 0
  #isClosed = false

  /** @throws TypeError when the source is neither URL nor client; Error when the package `redis` is not installed */
  constructor(
    source: RedisSource,
    { keyPrefix = 'eda:', waitReplicas = 0, onConnect = () => Promise.resolve() }: RedisConnectionOptions = {}
  ) {
    assertRedisSource(source)
    this.#prefix = keyPrefix
    this.#replicas = waitReplicas
    const prepare = (send: Send): Promise<Send> => onConnect(send).then(() => send)
    if (typeof source !== 'string') {
      this.#open = () => ({ client: undefined, ready: prepare(createSender(source)) })
      return
    }
    const newClient = prepareClient(source)
    this.#open = () => {
      const client = newClient()
      return { client, ready: connect(client).then(prepare) }
    }
  }

  /** Sends one command on a key. @throws Error when Redis is unavailable or too slow, or refuses it */
  send(command: string, key: string, ...args: readonly string[]): Promise<unknown> {
    return this.#verb((send) => send(this.#prefix + key, [command, this.#prefix + key, ...args]))
  }

  /** Runs a script. @throws Error when Redis is unavailable or too slow, or refuses it */
  run(script: RedisScript, key: string, args: Arguments): Promise<unknown> {
    return this.#verb((send) => runScript(send, script, this.#prefix + key, args))
  }

  /** Runs a script. @throws Error as `run`, and when too few replicas have the write, which stays on the primary */
  write(script: RedisScript, key: string, args: Arguments): Promise<unknown> {
    return this.#verb(async (send, channel) => {
      const answer = await runScript(send, script, this.#prefix + key, args)
      if (this.#replicas > 0) await this.#waitForReplicas(send, channel)
      return answer
    })
  }

  /** Resolves when Redis accepted a write: a full Redis still answers PING. */
  async ping(): Promise<void> {
    await this.send('SET', 'ping', '', 'PX', String(PING_MILLISECONDS))
  }

  /** Ends the connections that were opened here. Verbs in flight are rejected. */
  async close(): Promise<void> {
    this.#isClosed = true
    endClient(this.#channel)
    this.#channel = undefined
  }

  /** Runs a verb: any number of commands on one connection. */
  async #verb<T>(work: (send: Send, channel: Channel) => Promise<T>): Promise<T> {
    if (this.#isClosed) throw new Error('the Redis store is closed')
    if (this.#pending >= MAX_PENDING) throw new Error(`${String(MAX_PENDING)} calls wait for Redis`)
    const channel = this.#current()
    this.#pending += 1
    channel.pending += 1
    try {
      const answer = channel.ready.then((send) => work(send, channel))
      return await within(VERB_MILLISECONDS, answer, createExpiredError)
    } catch (error) {
      channel.isLost ||= isConnectionLost(error)
      throw error
    } finally {
      this.#pending -= 1
      channel.pending -= 1
      this.#endReplaced(channel)
    }
  }

  #current(): Channel {
    const known = this.#channel
    if (known !== undefined && (!known.isLost || performance.now() - known.openedAt < RETRY_MILLISECONDS)) return known
    const waits = { running: Promise.resolve(), next: undefined }
    const channel: Channel = { ...this.#open(), openedAt: performance.now(), pending: 0, isLost: false, ...waits }
    const { client } = channel
    // An error event that has no listener would end the process. A cluster's client opens its nodes again by itself.
    client?.on('error', () => {
      channel.isLost ||= !('masters' in client)
    })
    channel.ready.catch(() => (channel.isLost = true))
    this.#channel = channel
    if (known !== undefined) this.#endReplaced(known)
    return channel
  }

  #endReplaced(channel: Channel): void {
    if (channel !== this.#channel && channel.pending === 0) endClient(channel)
  }

  /** Waits for replicas. WAIT stops its connection and covers all earlier writes on it, so one serves many verbs. */
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

/** Runs a script by its hash, and by its text where Redis does not know it yet, as after a restart. */
async function runScript(send: Send, { text, sha1 }: RedisScript, key: string, args: Arguments): Promise<unknown> {
  const rest = ['1', key, ...args.map(String)]
  try {
    return await send(key, ['EVALSHA', sha1, ...rest])
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
    return send(key, ['EVAL', text, ...rest])
  }
}

function createExpiredError(): Error {
  return new Error(`Redis did not answer within ${String(VERB_MILLISECONDS)} ms`)
}

/** Whether an error is not Redis's own, which begins with a capital code. A former primary answers READONLY. */
function isConnectionLost(error: unknown): boolean {
  const message = error instanceof Error ? error.message : String(error)
  return !/^[A-Z]+ /.test(message) || message.startsWith('READONLY')
}
