import { childrenOf, isBlockOf, isLeaf, type Block, type Content } from './content-blocks.js'
import type { SqliteFile } from './database.js'

/** For a block whose uses are not known: more than it has. Only counting anew finds out how many. */
const UNKNOWN_USES = 1_000_000_000

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
  readonly #putBack
  readonly #isUnknown

  constructor(database: SqliteFile) {
    database.exec(
      'CREATE TABLE IF NOT EXISTS blocks (cid TEXT NOT NULL UNIQUE, uses INTEGER NOT NULL, bytes BLOB NOT NULL)'
    )
    this.#put = database.prepare<[string, Uint8Array]>(
      // The bytes as well: those that are there may be damaged, and whoever adds is told that the content is kept. To compare
      // them first would save nothing: SQLite writes a row anew when its number of uses gets longer, and else only what differs.
      `INSERT INTO blocks (cid, uses, bytes) VALUES (?, 1, ?)
        ON CONFLICT (cid) DO UPDATE SET uses = uses + 1, bytes = excluded.bytes`
    )
    this.#take = database.prepare<[string]>('UPDATE blocks SET uses = uses - 1 WHERE cid = ?')
    this.#drop = database.prepare<[string]>('DELETE FROM blocks WHERE cid = ? AND uses <= 0')
    this.#find = database.prepare<[string], { bytes: Buffer }>('SELECT bytes FROM blocks WHERE cid = ?')
    this.#mend = database.prepare<[Uint8Array, string]>('UPDATE blocks SET bytes = ? WHERE cid = ?')
    this.#putBack = database.prepare<[string, number, Uint8Array]>(
      'INSERT INTO blocks (cid, uses, bytes) VALUES (?, ?, ?)'
    )
    this.#isUnknown = database.prepare<[string, number]>('SELECT 1 FROM blocks WHERE cid = ? AND uses > ?')
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
   *
   * @returns whether all went that nothing else uses; false when something may have stayed until all is counted anew
   */
  remove(cid: string): boolean {
    let isAllGone = true
    const ahead = [cid]
    for (let one = ahead.pop(); one !== undefined; one = ahead.pop()) {
      const children = this.#childrenOf(one)
      if (children === undefined || this.#isUnknown.get(one, UNKNOWN_USES / 2) !== undefined) isAllGone = false
      ahead.push(...(children ?? []))
      this.#take.run(one)
      this.#drop.run(one)
    }
    return isAllGone
  }

  /**
   * Puts back what is lost or damaged of content that is kept. What else uses a lost block shows only when all are counted
   * anew: until then it has more uses than it can lose, so that it never goes with one of several contents.
   */
  repair({ blocks }: Content): void {
    for (const { cid, bytes } of blocks) {
      if (this.#mend.run(bytes, cid).changes === 0) this.#putBack.run(cid, UNKNOWN_USES, bytes)
    }
  }

  /** Undefined when they cannot be told, because the block is lost or damaged. */
  #childrenOf(cid: string): string[] | undefined {
    if (isLeaf(cid)) return []
    const bytes = this.#find.get(cid)?.bytes
    return bytes !== undefined && isBlockOf(cid, bytes) ? childrenOf({ cid, bytes }) : undefined
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
