import type { RedisConnection, Send } from './redis-connection.js'
import type { RedisScript } from './redis-script.js'

/** Milliseconds that Redis waits for its replicas. */
const WAIT_MILLISECONDS = 1_000

/** The wait that runs on a connection, and the one that begins after it. */
interface Waits {
  running: Promise<void>
  next: Promise<void> | undefined
}

/**
 * Runs scripts that write, and resolves once enough replicas have what they wrote.
 *
 * WAIT stops its connection and speaks of all earlier writes on it: one serves all verbs that were answered before it.
 */
export class ReplicatedWrites {
  readonly #connection: RedisConnection
  readonly #replicas: number
  readonly #waits = new WeakMap<Send, Waits>()

  /** @param replicas - how many have to have a write; 0 to wait for none */
  constructor(connection: RedisConnection, replicas: number) {
    this.#connection = connection
    this.#replicas = replicas
  }

  /** @throws Error when too few replicas have the write, which is done on the primary all the same */
  run(script: RedisScript, key: string, args: readonly (string | number)[]): Promise<unknown> {
    return this.#connection.verb(async (send) => {
      const answer = await script.run(send, key, args)
      if (this.#replicas > 0) await this.#joinWait(send)
      return answer
    })
  }

  #joinWait(send: Send): Promise<void> {
    const waits = this.#waits.get(send) ?? { running: Promise.resolve(), next: undefined }
    this.#waits.set(send, waits)
    waits.next ??= waits.running.then(() => {
      const wait = this.#wait(send)
      waits.next = undefined
      waits.running = wait.catch(() => undefined)
      return wait
    })
    return waits.next
  }

  async #wait(send: Send): Promise<void> {
    const count = Number(await send(undefined, ['WAIT', String(this.#replicas), String(WAIT_MILLISECONDS)]))
    if (count >= this.#replicas) return
    throw new Error(`NOREPLICAS ${String(count)} of ${String(this.#replicas)} replicas have the write`)
  }
}
