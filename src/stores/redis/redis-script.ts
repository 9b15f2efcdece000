import { createHash } from 'node:crypto'
import type { Send } from './redis-connection.js'

/** A Lua script of one key: one verb, atomic, and at home in a cluster. */
export class RedisScript {
  readonly #text: string
  readonly #sha1: string

  constructor(text: string) {
    this.#text = text
    this.#sha1 = createHash('sha1').update(text).digest('hex')
  }

  /** Runs it by its hash, and by its text where Redis does not know it yet, as after a restart. */
  async run(send: Send, key: string, args: readonly (string | number)[]): Promise<unknown> {
    const rest = ['1', key, ...args.map(String)]
    try {
      return await send(key, ['EVALSHA', this.#sha1, ...rest])
    } catch (error) {
      if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
      return send(key, ['EVAL', this.#text, ...rest])
    }
  }
}
