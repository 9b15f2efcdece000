import { childrenOf, isBlockOf, isLeaf, type Block, type Content } from './content-blocks.js'
import type { SqliteFile } from './database.js'

/**
 * Content-addressed blocks in the server's own SQLite file: what an IPFS node would keep, with the same cids, and nothing
 * to install.
 *
 * A block that several contents share is there once, and goes with the last of them. No verb opens a transaction: the
 * caller's own index changes in the same one.
 */
export class ContentStore {
  readonly #put
  readonly #take
  readonly #drop
  readonly #find
  readonly #mend

  constructor(database: SqliteFile) {
    database.exec(
      'CREATE TABLE IF NOT EXISTS blocks (cid TEXT NOT NULL UNIQUE, uses INTEGER NOT NULL, bytes BLOB NOT NULL)'
    )
    this.#put = database.prepare<[string, Uint8Array]>(
      // The bytes as well: those that are there may be damaged, and whoever adds is told that the content is kept.
      `INSERT INTO blocks (cid, uses, bytes) VALUES (?, 1, ?)
        ON CONFLICT (cid) DO UPDATE SET uses = uses + 1, bytes = excluded.bytes`
    )
    this.#take = database.prepare<[string]>('UPDATE blocks SET uses = uses - 1 WHERE cid = ?')
    this.#drop = database.prepare<[string]>('DELETE FROM blocks WHERE cid = ? AND uses <= 0')
    this.#find = database.prepare<[string], { bytes: Buffer }>('SELECT bytes FROM blocks WHERE cid = ?')
    this.#mend = database.prepare<[Uint8Array, string]>('UPDATE blocks SET bytes = ? WHERE cid = ?')
  }

  /** Keeps content once more: as often as it is added, it has to be removed. */
  add({ blocks }: Content): void {
    for (const { cid, bytes } of blocks) this.#put.run(cid, bytes)
  }

  /** The bytes of content; undefined when a block of it is lost or damaged. */
  read(cid: string): Uint8Array | undefined {
    const leaves: Uint8Array[] = []
    const isWhole = this.#walk(cid, ({ bytes }, children) => {
      if (children.length === 0) leaves.push(bytes)
    })
    if (!isWhole) return undefined
    const [only] = leaves
    return leaves.length === 1 ? only : Buffer.concat(leaves)
  }

  /**
   * Lets go of content; its blocks go with their last use, also where they are damaged. Where a block that links to others
   * is lost or damaged, what is below it stays, and is unused: to be found by counting anew.
   */
  remove(cid: string): void {
    const ahead = [cid]
    for (let one = ahead.pop(); one !== undefined; one = ahead.pop()) {
      ahead.push(...this.#childrenOf(one))
      this.#take.run(one)
      this.#drop.run(one)
    }
  }

  /**
   * Puts back what is lost or damaged of content that is kept. A lost block comes back with the uses that this content has
   * for it: what else may use it shows only when all are counted anew.
   */
  repair({ blocks }: Content): void {
    const lost = new Set<string>()
    for (const { cid, bytes } of blocks) {
      if (this.#find.get(cid) === undefined) lost.add(cid)
      if (lost.has(cid)) this.#put.run(cid, bytes)
      else this.#mend.run(bytes, cid)
    }
  }

  #childrenOf(cid: string): string[] {
    const bytes = isLeaf(cid) ? undefined : this.#find.get(cid)?.bytes
    return bytes !== undefined && isBlockOf(cid, bytes) ? childrenOf({ cid, bytes }) : []
  }

  /** Visits the blocks of content from its root on, and answers whether all were there and undamaged. */
  #walk(root: string, visit: (block: Block, children: readonly string[]) => void): boolean {
    let isWhole = true
    const ahead = [root]
    for (let cid = ahead.pop(); cid !== undefined; cid = ahead.pop()) {
      const bytes = this.#find.get(cid)?.bytes
      if (bytes === undefined || !isBlockOf(cid, bytes)) {
        isWhole = false
        continue
      }
      const children = childrenOf({ cid, bytes })
      visit({ cid, bytes }, children)
      ahead.push(...children.toReversed())
    }
    return isWhole
  }
}
