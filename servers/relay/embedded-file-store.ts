import type { Content } from '../shared/content/content-blocks.js'
import { recountBlocks } from '../shared/content/content-recount.js'
import { ContentStore } from '../shared/content/content-store.js'
import type { SqliteFile } from '../shared/content/database.js'
import type { DiskSpace } from '../shared/content/disk-space.js'
import { GroupCommit } from '../shared/content/group-commit.js'
import type { FileStore } from './file-store.js'
import { KeptFiles, type KeptFile, type KeptFilesOptions } from './kept-files.js'

/** Files that are dropped in one transaction, during which nothing else happens. */
const SWEPT_AT_ONCE = 8

/** Files in the server's own database. */
export class EmbeddedFileStore implements FileStore {
  readonly #database: SqliteFile
  readonly #commits: GroupCommit
  readonly #contents: ContentStore
  readonly #kept: KeptFiles
  readonly #disk: DiskSpace | undefined

  /** @param disk - where the database lies; none where nothing is kept any more */
  constructor(database: SqliteFile, options: KeptFilesOptions, disk?: DiskSpace) {
    this.#database = database
    this.#commits = new GroupCommit(database)
    this.#contents = new ContentStore(database)
    this.#kept = new KeptFiles(database, 'here', options)
    this.#disk = disk
  }

  async keep(content: Content, _bytes: Uint8Array, nowSeconds: number): Promise<void> {
    await this.#disk?.assertFree()
    await this.#commits.write(() => {
      if (this.#kept.keep(content, nowSeconds)) this.#contents.add(content)
      // Whoever posts it once more is told that it is kept, and has it at hand.
      else if (this.#contents.read(content.cid) === undefined) this.#contents.repair(content)
    })
  }

  async sweep(nowSeconds: number, signal: AbortSignal): Promise<void> {
    let dropped = SWEPT_AT_ONCE
    let isAllGone = true
    while (dropped === SWEPT_AT_ONCE && !signal.aborted) {
      const gone = await this.#commits.write(() =>
        this.#kept.ended(nowSeconds, SWEPT_AT_ONCE).map((cid) => {
          this.#kept.remove(cid)
          return this.#contents.remove(cid)
        })
      )
      dropped = gone.length
      isAllGone &&= gone.every(Boolean)
    }
    // What was damaged once may have left something behind.
    if (!isAllGone) recountBlocks(this.#database, "SELECT cid FROM files WHERE place = 'here'", false)
  }

  keptSince(seconds: number, limit: number, last?: KeptFile): readonly KeptFile[] {
    return this.#kept.since(seconds, limit, last)
  }

  find(cid: string): KeptFile | undefined {
    return this.#kept.find(cid)
  }

  read(cid: string): Uint8Array | undefined {
    return this.#contents.read(cid)
  }

  async ping(): Promise<void> {
    await this.#commits.write(() => undefined)
  }
}
