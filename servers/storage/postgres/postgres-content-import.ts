import type { ContentImport, PinState } from '../content-inspection.js'
import type { EntryPlace, NewContent } from '../content-store.js'
import { storeContent, type ContentRow, type UploadNeeded } from '../object-writer.js'
import { ContentPlacing } from './content-placing.js'
import { ContentRows } from './content-rows.js'
import { EntryWrites } from './entry-writes.js'
import { FileWrites } from './file-writes.js'
import { LooseContents } from './loose-contents.js'
import { PinChanges } from './pin-changes.js'
import type { PostgresContentStoreParts } from './postgres-content-store.js'

const REPEATABLE = { isRepeatable: true }
/** It was granted where the content was written. */
const NO_QUOTA = { maxBytes: Infinity, maxEntries: Infinity }

/** Takes over what another store has, beside instances that work. Pins come as they are there, and not from content. */
export class PostgresContentImport implements ContentImport {
  readonly #parts: PostgresContentStoreParts
  readonly #rows: ContentRows
  readonly #entries: EntryWrites
  readonly #files: FileWrites
  readonly #reserve
  readonly #addPins

  constructor(parts: PostgresContentStoreParts) {
    const { database, monotonicSeconds } = parts
    const placing = new ContentPlacing(database)
    const pins = new PinChanges(database, false)
    this.#parts = parts
    this.#rows = new ContentRows(database, placing)
    const loose = new LooseContents(database)
    this.#entries = new EntryWrites(database, placing, pins, loose)
    this.#files = new FileWrites({ database, placing, pins, loose, monotonicSeconds })
    const { statement } = database
    this.#reserve = statement(
      'reserve_numbers',
      `SELECT pg_catalog.setval('~entry_numbers', greatest(pg_catalog.nextval('~entry_numbers'), $1::bigint))`
    )
    this.#addPins = statement(
      'import_pins',
      `INSERT INTO ~pins (cid, state, is_in_doubt) SELECT p.cid, p.state, p.is_in_doubt
         FROM ROWS FROM (pg_catalog.unnest($1::text[]), pg_catalog.unnest($2::text[]),
           pg_catalog.unnest($3::boolean[])) AS p (cid, state, is_in_doubt)
         WHERE (p.state <> 'unpin') = EXISTS (SELECT 1 FROM ~contents c WHERE c.cid = p.cid)
       ORDER BY p.cid COLLATE "C" ON CONFLICT (cid) DO NOTHING`
    )
  }

  async reserveNumbers(lastNumber: number): Promise<void> {
    await this.#parts.database.query(this.#reserve, [lastNumber], REPEATABLE)
  }

  async importEntry({ content, ...entry }: EntryPlace & { number: number; content: NewContent }): Promise<void> {
    await this.#store(content, (row) => {
      const write = { ...entry, content: row, replaces: 'nothing', quota: NO_QUOTA } as const
      return this.#entries.write(write, this.#now())
    })
  }

  async importFile({ content, expiresAtSeconds }: { content: NewContent; expiresAtSeconds: number }): Promise<void> {
    await this.#store(content, (row) => this.#files.import(row, expiresAtSeconds, this.#now()))
  }

  async importPins(pins: readonly PinState[]): Promise<void> {
    const [cids, states] = [pins.map(({ cid }) => cid), pins.map(({ state }) => state)]
    await this.#parts.database.query(this.#addPins, [cids, states, pins.map(({ isInDoubt }) => isInDoubt)], REPEATABLE)
  }

  async #store<T extends object>(
    content: NewContent,
    write: (row: ContentRow) => Promise<T | UploadNeeded>
  ): Promise<void> {
    const { objects, writer } = this.#parts
    const find = async (cid: string) => (await this.#rows.find([cid]))[0]
    const repair = async (damaged: NewContent): Promise<void> => {
      await writer.store(damaged, (row) => this.#rows.repair(row, this.#now()))
    }
    await storeContent({ objects, writer, find, repair }, content, write)
  }

  #now(): number {
    return this.#parts.clock.nowSeconds()
  }
}
