import { DidAuthError } from 'express-did-auth'
import type { Content } from '../shared/content-blocks.js'
import type { SqliteFile } from '../shared/database.js'
import { GroupCommit } from '../shared/group-commit.js'
import type { IpfsNode } from '../shared/ipfs-node.js'
import { ServerError } from '../shared/server-error.js'
import type { FileStore, FileStoreOptions } from './file-store.js'
import { KeptFiles, type KeptFile } from './kept-files.js'

/** When a pin that was asked for and not confirmed is taken off: a node that was slow has done what it was asked by then. */
const UNCONFIRMED_SECONDS = 600
/** Files that are let go of in one sweep. */
const SWEPT_AT_ONCE = 1_000

/**
 * Files on an IPFS node, with a row in the server's own database for each.
 *
 * The row is there before the node is asked, so that nothing that happens in between leaves a pin behind that nobody
 * knows of. One order at a time for each cid.
 */
export class NodeFileStore implements FileStore {
  readonly #node: IpfsNode
  readonly #ttlSeconds: number
  readonly #commits: GroupCommit
  readonly #kept: KeptFiles
  readonly #adding = new Map<string, Promise<void>>()
  readonly #dropping = new Set<string>()

  constructor(database: SqliteFile, node: IpfsNode, { ttlSeconds, maxBytes }: FileStoreOptions) {
    this.#node = node
    this.#ttlSeconds = ttlSeconds
    this.#commits = new GroupCommit(database)
    this.#kept = new KeptFiles(database, maxBytes)
  }

  async keep(content: Content, bytes: Uint8Array, nowSeconds: number): Promise<void> {
    const { cid } = content
    if (this.#dropping.has(cid)) throw new DidAuthError('ERR_BUSY')
    const adding =
      this.#adding.get(cid) ?? this.#add(content, bytes, nowSeconds).finally(() => this.#adding.delete(cid))
    this.#adding.set(cid, adding)
    await adding
  }

  async sweep(nowSeconds: number, signal: AbortSignal): Promise<void> {
    let refusal: ServerError | undefined
    for (const cid of this.#kept.ended(nowSeconds, SWEPT_AT_ONCE)) {
      if (signal.aborted) break
      if (this.#adding.has(cid)) continue
      this.#dropping.add(cid)
      try {
        await this.#node.unpin(cid)
        await this.#commits.write(() => {
          this.#kept.remove(cid)
        })
      } catch (error) {
        // What it says of one file says nothing of the next.
        if (!(error instanceof ServerError && error.code === 'ERR_NODE_NONSENSE')) throw error
        refusal = error
      } finally {
        this.#dropping.delete(cid)
      }
    }
    if (refusal !== undefined) throw refusal
  }

  /** Nothing: what a node answers arrives too late for a memory that just begins. */
  keptSince(): readonly KeptFile[] {
    return []
  }

  read(): undefined {
    return undefined
  }

  async ping(): Promise<void> {
    await this.#commits.write(() => undefined)
  }

  async #add(content: Content, bytes: Uint8Array, nowSeconds: number): Promise<void> {
    const unconfirmed = { keptAtSeconds: nowSeconds, endsAtSeconds: nowSeconds + UNCONFIRMED_SECONDS }
    await this.#commits.write(() => {
      if (!this.#kept.has(content.cid)) this.#kept.insert(content, unconfirmed)
    })
    await this.#node.add(content.cid, bytes)
    const confirmed = { keptAtSeconds: nowSeconds, endsAtSeconds: nowSeconds + this.#ttlSeconds }
    await this.#commits.write(() => this.#kept.move(content.cid, confirmed))
  }
}
