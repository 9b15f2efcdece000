import type { IpfsNode } from '../../servers/ipfs/ipfs-node.js'
import { ServerError, type ServerErrorCode } from '../../servers/http/server-error.js'

/** An IPFS node in memory that keeps what it is given, until it is told to fail. */
export class VaultNode implements IpfsNode {
  readonly contents = new Map<string, Uint8Array>()
  readonly pins = new Set<string>()
  /** How every call fails; undefined when none does. */
  fault: ServerErrorCode | undefined
  /** What every call waits for before it does anything. */
  gate: Promise<void> = Promise.resolve()
  /** Cids that were asked for, in order. */
  readonly reads: string[] = []

  async add(cid: string, bytes: Uint8Array): Promise<void> {
    await this.#call()
    this.contents.set(cid, Uint8Array.from(bytes))
    this.pins.add(cid)
  }

  async unpin(cid: string): Promise<void> {
    await this.#call()
    this.pins.delete(cid)
  }

  async read(cid: string): Promise<Uint8Array> {
    this.reads.push(cid)
    await this.#call()
    const bytes = this.contents.get(cid)
    if (bytes === undefined) throw new ServerError('ERR_IPFS_TIMEOUT')
    return bytes
  }

  async listPins(): Promise<ReadonlySet<string>> {
    await this.#call()
    return new Set(this.pins)
  }

  ping(): Promise<void> {
    return this.#call()
  }

  async #call(): Promise<void> {
    await new Promise(setImmediate)
    await this.gate
    if (this.fault !== undefined) throw new ServerError(this.fault)
  }
}
