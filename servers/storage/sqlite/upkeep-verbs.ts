import type { SqlConnection, SqlStatement } from 'express-did-auth/stores/sqlite'
import { READ_UNTIL, UPLOAD_SECONDS, type Garbage } from '../object-writer.js'
import type { Tables } from './content-verbs.js'

/** What became of content that was taken down. */
export interface TakenDown {
  /** Entries and files that had it. */
  readonly removed: number
  /** Whether its bytes may have lain in the database file. */
  readonly wasInRow: boolean
}

const GARBAGE_AT_ONCE = 100

/** What keeps the store in order, and what an operator does, as the thread runs it. */
export class UpkeepVerbs {
  readonly #connection: SqlConnection
  readonly #tables: Tables
  readonly #garbage: SqlStatement
  readonly #condemn: SqlStatement
  readonly #forget: SqlStatement
  readonly #deny: SqlStatement
  readonly #condemnAll: SqlStatement
  readonly #allow: SqlStatement
  readonly #probe: SqlStatement

  constructor(connection: SqlConnection, tables: Tables) {
    this.#connection = connection
    this.#tables = tables
    this.#garbage = connection.prepare(`SELECT object, kind FROM garbage WHERE object > ? AND
      (kind = 'takedown' OR (kind = 'removed' AND ${READ_UNTIL} <= ?) OR (kind = 'upload' AND since <= ?))
      ORDER BY object LIMIT ${GARBAGE_AT_ONCE}`)
    this.#condemn = connection.prepare("UPDATE garbage SET kind = 'removed' WHERE object = ? AND kind = 'upload'")
    this.#forget = connection.prepare('DELETE FROM garbage WHERE object = ?')
    this.#deny = connection.prepare('INSERT OR REPLACE INTO denied VALUES (?, ?, ?)')
    // The names of objects begin with the cid. One that is being written would come after its deletion.
    this.#condemnAll = connection.prepare(
      "UPDATE garbage SET kind = 'takedown' WHERE object > ? AND object < ? AND kind <> 'upload'"
    )
    this.#allow = connection.prepare('DELETE FROM denied WHERE cid = ?')
    this.#probe = connection.prepare("UPDATE numbers SET number = number + 1 WHERE name = 'probes'")
  }

  /**
   * Objects to delete, in the order of their names; none of them can be taken into use any more, so that several collectors
   * may delete them.
   */
  claimGarbage(after: string, uploadsBefore: number, readUntil: number): Garbage[] {
    const rows = this.#garbage.all(after, readUntil, uploadsBefore - UPLOAD_SECONDS)
    return rows.map(({ object, kind }) => {
      if (kind === 'upload') this.#condemn.run(String(object))
      return { object: String(object), overwrite: kind === 'takedown' }
    })
  }

  /** The objects are deleted. */
  forgetGarbage(objects: readonly string[]): void {
    for (const object of objects) this.#forget.run(object)
  }

  takeDown(cid: string, reason: string, nowSeconds: number): TakenDown {
    const { contents, entries, files, pins } = this.#tables
    this.#deny.run(cid, reason, nowSeconds)
    const wasInRow = contents.find(cid)?.object === undefined
    const removed = entries.removeEverywhere(cid) + (files.delete(cid) ? 1 : 0)
    // SQLite overwrites what is deleted now, and only now: else that doubles what a deletion writes.
    this.#connection.exec('PRAGMA secure_delete = ON')
    try {
      contents.dropUnused(cid, nowSeconds)
    } finally {
      this.#connection.exec('PRAGMA secure_delete = OFF')
    }
    this.#condemnAll.run(`${cid}.`, `${cid}/`)
    pins.unwant(cid)
    return { removed, wasInRow }
  }

  allow(cid: string): boolean {
    return Number(this.#allow.run(cid).changes) === 1
  }

  /** Writes the file again without what was deleted. Outside of a transaction. */
  vacuum(): void {
    this.#connection.exec('VACUUM')
  }

  /** Empties the log of changes. Outside of a transaction. @returns false when something reads it */
  truncateLog(): boolean {
    return this.#connection.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.busy === 0
  }

  probe(): void {
    this.#probe.run()
  }
}
