import type { IpfsNode } from '../../shared/ipfs/ipfs-node.js'
import { ServerError } from '../../shared/http/server-error.js'
import type { PinIntent, PinIntents } from './pin-intents.js'

/** What it takes to carry an intent out. */
export interface PinTurnParts {
  intents: PinIntents
  node: IpfsNode
  /** The bytes of content; undefined when they are lost or damaged. */
  read: (cid: string) => Uint8Array | undefined
  nowSeconds: () => number
}

/** What a turn has to know of whoever gave it. */
export interface PinTurnGiver {
  /** False: the node is away, or the server stops. */
  mayCall(): boolean
  /** The table must not be touched any more. */
  isClosed(): boolean
  failed(error: unknown): void
}

const MAX_RETRY_SECONDS = 3_600

/**
 * One cid, until the node is as the vault wants it. Another process may work at the same cid: each acts on the mind that
 * it read, and looks again when that changed meanwhile.
 */
export class PinTurn {
  readonly #parts: PinTurnParts
  readonly #giver: PinTurnGiver
  readonly #cid: string
  /** What a call of ours left on the node, or may have, while another mind was written down. */
  #left: 'pin' | 'unpin' | undefined

  constructor(parts: PinTurnParts, giver: PinTurnGiver, cid: string) {
    this.#parts = parts
    this.#giver = giver
    this.#cid = cid
  }

  /** One step: a promise while there is more to do, true when all is done, false when the rest has to wait. */
  step(): Promise<void> | boolean {
    const { intents, nowSeconds } = this.#parts
    if (this.#giver.isClosed()) return false
    const intent = intents.find(this.#cid)
    if (this.#left === 'pin' && intent === undefined) return this.#correct('unpinAgain')
    if (this.#left === 'unpin' && intent?.state === 'pinned') return this.#correct('pinAgain')
    if (intent === undefined || intent.state === 'pinned') return true
    if (!this.#giver.mayCall() || intent.retryAtSeconds > nowSeconds()) return false
    return this.#carryOut(intent, intent.state)
  }

  /** Our call may have come after that of another process, and undone it. */
  async #correct(verb: 'pinAgain' | 'unpinAgain'): Promise<void> {
    await this.#parts.intents.commit(() => {
      this.#parts.intents[verb](this.#cid)
    })
    this.#left = undefined
  }

  async #carryOut(intent: PinIntent, state: 'pin' | 'unpin'): Promise<void> {
    const { intents, nowSeconds } = this.#parts
    try {
      await this.#call(state)
    } catch (error) {
      this.#giver.failed(error)
      if (this.#giver.isClosed()) return
      const retryAtSeconds = nowSeconds() + Math.min(2 ** intent.attempts, MAX_RETRY_SECONDS)
      await intents.commit(() => {
        intents.postpone(intent, retryAtSeconds)
      })
      return
    }
    if (this.#giver.isClosed()) return
    if (await intents.commit(() => intents.finish(intent, nowSeconds()))) this.#left = undefined
  }

  async #call(state: 'pin' | 'unpin'): Promise<void> {
    const { node, read } = this.#parts
    if (state === 'unpin') {
      this.#left = state
      await node.unpin(this.#cid)
      return
    }
    const bytes = read(this.#cid)
    if (bytes === undefined) throw new ServerError('ERR_CONTENT_LOST')
    this.#left = state
    await node.add(this.#cid, bytes)
  }
}
