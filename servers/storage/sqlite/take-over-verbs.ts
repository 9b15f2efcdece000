import type { SqlConnection, SqlStatement } from 'express-did-auth/stores/sqlite'
import type { ContentRow, UploadNeeded } from '../object-writer.js'
import { childrenOf, isBlockOf, isLeaf } from '../unixfs-blocks.js'
import type { Tables } from './content-verbs.js'

/** Content as blocks of before have it; without bytes one of its blocks is lost or damaged. */
export interface OldContent {
  readonly cid: string
  readonly bytes: Uint8Array | undefined
}

/** What is moved at a time: so many contents, or the one that passes so many bytes. */
const PAGE = 'ORDER BY cid LIMIT 256'
const BYTES_AT_ONCE = 4_194_304
const LISTS_AT_ONCE = 50

type Statements = Readonly<Record<'nextOfVault' | 'nextOfRelay' | 'find' | 'release' | 'drop', SqlStatement>>

/**
 * Moves content out of the blocks that it lay in before, each with its own transaction: what was moved is known by its
 * row, so that a process which ended half way, or another one beside it, goes on where it was.
 */
export class TakeOverVerbs {
  readonly #connection: SqlConnection
  readonly #tables: Tables
  #statements: Statements | undefined

  constructor(connection: SqlConnection, tables: Tables) {
    this.#connection = connection
    this.#tables = tables
  }

  /** Contents that are not moved yet, in the order of cids; none where there are no blocks. */
  nextContents(afterCid: string): OldContent[] {
    if (!this.#has("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'blocks'")) return []
    const found: OldContent[] = []
    let byteCount = 0
    const { nextOfVault, nextOfRelay } = this.#prepared()
    const ofVault = nextOfVault.all(afterCid)
    // A file is of one of the two.
    for (const { cid } of ofVault.length > 0 ? ofVault : nextOfRelay.all(afterCid)) {
      const bytes = this.#read(String(cid))
      found.push({ cid: String(cid), bytes })
      byteCount += bytes?.length ?? 0
      if (byteCount >= BYTES_AT_ONCE) break
    }
    return found
  }

  /** Stores content where it belongs now, and takes its use off the blocks. */
  moveContent(content: ContentRow, nowSeconds: number): UploadNeeded | undefined {
    const { contents, entries, files } = this.#tables
    if (!contents.isUsed(content.cid)) return undefined
    const isMoved = contents.find(content.cid) !== undefined
    if (contents.store(content, nowSeconds) === 'upload') return { upload: true }
    if (isMoved) return undefined
    entries.correct(content)
    files.correct(content)
    // What is removed here must not be left for a takedown to miss.
    this.#connection.exec('PRAGMA secure_delete = ON')
    try {
      this.#release(content.cid)
    } finally {
      this.#connection.exec('PRAGMA secure_delete = OFF')
    }
    return undefined
  }

  /** Writes some of the rows of lists. @returns the last place; undefined when all have theirs */
  buildLists([afterOwner, afterKey]: readonly [number, string]): [number, string] | undefined {
    if (!this.#has("SELECT 1 FROM numbers WHERE name = 'listsToBuild'")) return undefined
    const next = this.#connection.prepare(`SELECT owner, key, did FROM entries
      JOIN owners ON owners.id = owner WHERE (owner, key) > (?, ?) GROUP BY owner, key ORDER BY owner, key LIMIT ${LISTS_AT_ONCE}`)
    const rows = next.all(afterOwner, afterKey)
    for (const { owner, key, did } of rows) {
      this.#tables.entries.buildList({ id: Number(owner), did: String(did) }, String(key))
    }
    const last = rows.at(-1)
    if (last !== undefined) return [Number(last.owner), String(last.key)]
    this.#connection.exec("DELETE FROM numbers WHERE name = 'listsToBuild'")
    return undefined
  }

  /** Everything is moved: what is left of blocks belongs to nothing. */
  dropBlocks(): void {
    this.#connection.exec('DROP TABLE IF EXISTS blocks')
  }

  /** Bytes of content, when all of its blocks are there and undamaged. */
  #read(root: string): Uint8Array | undefined {
    const leaves: Uint8Array[] = []
    const isWhole = this.#walk(root, (cid, bytes) => {
      if (isLeaf(cid)) leaves.push(bytes)
    })
    return isWhole ? Buffer.concat(leaves) : undefined
  }

  #release(root: string): void {
    const { release, drop } = this.#prepared()
    this.#walk(root, (cid) => {
      release.run(cid)
      drop.run(cid)
    })
  }

  /** Visits the blocks of content from its root on; a block may be gone once it was visited. */
  #walk(root: string, visit: (cid: string, bytes: Uint8Array) => void): boolean {
    const ahead = [root]
    for (let cid = ahead.pop(); cid !== undefined; cid = ahead.pop()) {
      const bytes = this.#prepared().find.get(cid)?.bytes
      if (!(bytes instanceof Uint8Array) || !isBlockOf(cid, bytes)) return false
      ahead.push(...childrenOf({ cid, bytes }).toReversed())
      visit(cid, bytes)
    }
    return true
  }

  #has(query: string): boolean {
    return this.#connection.prepare(query).get() !== undefined
  }

  /** The table of blocks is not there in most files. */
  #prepared(): Statements {
    this.#statements ??= {
      nextOfVault: this.#connection.prepare(`SELECT DISTINCT cid FROM entries
        WHERE cid > ? AND NOT EXISTS (SELECT 1 FROM contents WHERE contents.cid = entries.cid) ${PAGE}`),
      nextOfRelay: this.#connection.prepare(`SELECT cid FROM relay_files JOIN blocks USING (cid)
        WHERE cid > ? AND NOT EXISTS (SELECT 1 FROM contents WHERE contents.cid = relay_files.cid) ${PAGE}`),
      find: this.#connection.prepare('SELECT bytes FROM blocks WHERE cid = ?'),
      release: this.#connection.prepare('UPDATE blocks SET uses = uses - 1 WHERE cid = ?'),
      drop: this.#connection.prepare('DELETE FROM blocks WHERE cid = ? AND uses <= 0')
    }
    return this.#statements
  }
}
