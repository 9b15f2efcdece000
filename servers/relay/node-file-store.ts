import { DidAuthError } from 'express-did-auth'
import type { Content } from '../shared/content/content-blocks.js'
import type { SqliteFile } from '../shared/content/database.js'
import { GroupCommit } from '../shared/content/group-commit.js'
import type { IpfsNode } from '../shared/ipfs/ipfs-node.js'
import { ServerError } from '../shared/http/server-error.js'
import { EmbeddedFileStore } from './embedded-file-store.js'
import type { FileStore } from './file-store.js'
import { KeptFiles, type KeptFile, type KeptFilesOptions } from './kept-files.js'

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
  readonly #commits: GroupCommit
  readonly #kept: KeptFiles
  /** What was kept in the server's own database before there was a node: it is read, and goes after its time. */
  readonly #here: EmbeddedFileStore
  readonly #adding = new Map<string, Promise<void>>()
  readonly #dropping = new Set<string>()

  constructor(database: SqliteFile, node: IpfsNode, options: KeptFilesOptions) {
    this.#node = node
    this.#commits = new GroupCommit(database)
    this.#kept = new KeptFiles(database, 'node', options)
    this.#here = new EmbeddedFileStore(database, options)
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
    await this.#here.sweep(nowSeconds, signal)
    let refusal: ServerError | undefined
    for (const cid of this.#kept.ended(nowSeconds, SWEPT_AT_ONCE)) {
      if (signal.aborted) break
      // While those before it went, it may have been posted again.
      if (this.#adding.has(cid) || !this.#kept.isEnded(cid, nowSeconds)) continue
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

  /** Only what is not on the node: what that answers arrives too late for a memory that just begins. */
  keptSince(seconds: number, limit: number, last?: KeptFile): readonly KeptFile[] {
    return this.#here.keptSince(seconds, limit, last)
  }

  find(cid: string): KeptFile | undefined {
    return this.#here.find(cid)
  }

  read(cid: string): Uint8Array | undefined {
    return this.#here.read(cid)
  }

  async ping(): Promise<void> {
    await this.#commits.write(() => undefined)
  }

  async #add(content: Content, bytes: Uint8Array, nowSeconds: number): Promise<void> {
    await this.#commits.write(() => {
      this.#kept.begin(content, nowSeconds)
    })
    await this.#node.add(content.cid, bytes)
    await this.#commits.write(() => this.#kept.keep(content, nowSeconds))
  }
}
