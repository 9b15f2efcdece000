import type { IpfsNode } from '../../../servers/ipfs/ipfs-node.js'
import { until } from '../fixtures/until.js'
import { ServerError, type ServerErrorCode } from '../../../servers/http/server-error.js'

/** Call that waits until the test finishes it. */
export interface HeldCall {
  verb: 'add' | 'unpin'
  cid: string
  /** Executes the call, and answers it. */
  finish(): void
  /** Answers the call with an error. Executes it only if `isDone`. */
  fail(code: ServerErrorCode, isDone?: boolean): void
}

/** IPFS node in memory, for orders of calls and faults that are too rare with a real one. */
export class HandMadeNode implements IpfsNode {
  readonly pins = new Set<string>()
  /** Added contents, pinned or not. */
  readonly contents = new Map<string, Uint8Array>()
  /** Every call, in order: `add a`, `unpin a`, `ping`. */
  readonly calls: string[] = []
  /** Waiting calls, if `isHolding`. */
  readonly held: HeldCall[] = []
  isHolding = false
  /** Requested CIDs, in order. */
  readonly reads: string[] = []
  /** Promise for which every read waits first. */
  gate: Promise<void> = Promise.resolve()
  /** Returns the error code of a call; undefined: it succeeds. */
  fault: (verb: 'add' | 'unpin' | 'ping', cid: string) => ServerErrorCode | undefined = () => undefined
  /** Maximum number of simultaneous calls so far. */
  mostAtOnce = 0
  #underWay = new Map<string, number>()
  /** CIDs that had two calls at the same time. */
  readonly overlaps: string[] = []

  add(cid: string, bytes: Uint8Array): Promise<void> {
    this.contents.set(cid, bytes)
    return this.#call('add', cid)
  }

  unpin(cid: string): Promise<void> {
    return this.#call('unpin', cid)
  }

  async ping(): Promise<void> {
    this.calls.push('ping')
    const code = this.fault('ping', '')
    if (code !== undefined) throw new ServerError(code)
  }

  async listPins(): Promise<ReadonlySet<string>> {
    await this.ping()
    return new Set(this.pins)
  }

  async read(cid: string): Promise<Uint8Array> {
    this.reads.push(cid)
    await this.gate
    await this.ping()
    const bytes = this.contents.get(cid)
    if (bytes === undefined) throw new ServerError('ERR_IPFS_TIMEOUT')
    return bytes
  }

  /** Waits for a held call of a CID, and returns it. */
  async heldCall(verb: 'add' | 'unpin', cid: string): Promise<HeldCall> {
    const findIndex = (): number => this.held.findIndex((call) => call.verb === verb && call.cid === cid)
    await until(() => findIndex() !== -1)
    return this.held.splice(findIndex(), 1)[0]!
  }

  async #call(verb: 'add' | 'unpin', cid: string): Promise<void> {
    this.calls.push(`${verb} ${cid}`)
    if ((this.#underWay.get(cid) ?? 0) > 0) this.overlaps.push(cid)
    this.#count(cid, 1)
    this.mostAtOnce = Math.max(
      this.mostAtOnce,
      [...this.#underWay.values()].reduce((sum, count) => sum + count, 0)
    )
    try {
      const code = this.fault(verb, cid)
      if (code !== undefined) throw new ServerError(code)
      await (this.isHolding ? this.#hold(verb, cid) : new Promise(setImmediate))
      this.#apply(verb, cid)
    } finally {
      this.#count(cid, -1)
    }
  }

  #hold(verb: 'add' | 'unpin', cid: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const fail = (code: ServerErrorCode, isDone = false): void => {
        if (isDone) this.#apply(verb, cid)
        reject(new ServerError(code))
      }
      this.held.push({ verb, cid, finish: resolve, fail })
    })
  }

  #apply(verb: 'add' | 'unpin', cid: string): void {
    if (verb === 'add') this.pins.add(cid)
    else this.pins.delete(cid)
  }

  #count(cid: string, change: number): void {
    const count = (this.#underWay.get(cid) ?? 0) + change
    if (count === 0) this.#underWay.delete(cid)
    else this.#underWay.set(cid, count)
  }
}
