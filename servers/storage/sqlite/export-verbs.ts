import type { SqlConnection, SqlStatement } from 'express-did-auth/stores/sqlite'
import type { PinState } from '../content-inspection.js'
import type { EntryPlace } from '../content-store.js'
import type { FileRow } from '../quota.js'
import { etagOf, stateOf, type Entry } from '../list-state.js'
import type { Tables } from './content-verbs.js'

const PAGE = 500

/** What is read of a store that is copied elsewhere, as the thread runs it. */
export class ExportVerbs {
  readonly #tables: Tables
  readonly #lastNumber: SqlStatement
  readonly #lists: SqlStatement
  readonly #files: SqlStatement
  readonly #denied: SqlStatement
  readonly #pins: SqlStatement

  constructor(connection: SqlConnection, tables: Tables) {
    this.#tables = tables
    this.#lastNumber = connection.prepare('SELECT ifnull(max(number), 0) AS number FROM entries')
    this.#lists = connection.prepare(`SELECT * FROM lists WHERE (did, key) > (?, ?) ORDER BY did, key LIMIT ${PAGE}`)
    const page = (table: string): SqlStatement =>
      connection.prepare(`SELECT * FROM ${table} WHERE cid > ? ORDER BY cid LIMIT ${PAGE}`)
    this.#files = page('relay_files')
    this.#denied = page('denied')
    this.#pins = page('pins')
  }

  lastNumber(): number {
    return Number(this.#lastNumber.get()?.number)
  }

  lists({ did, key }: EntryPlace): (EntryPlace & { etag: string })[] {
    const rows = this.#lists.all(did, key)
    return rows.map((row) => ({ did: String(row.did), key: String(row.key), etag: etagOf(stateOf(row)) }))
  }

  entries({ did, key }: EntryPlace): Entry[] {
    const owner = this.#tables.entries.owner(did)
    return owner === undefined ? [] : this.#tables.entries.entriesOf(owner, key)
  }

  files(afterCid: string): FileRow[] {
    return this.#files.all(afterCid).map(({ cid, byte_count, json_byte_count, expires_at }) => ({
      cid: String(cid),
      byteCount: Number(byte_count),
      jsonByteCount: Number(json_byte_count),
      expiresAtSeconds: Number(expires_at)
    }))
  }

  denied(afterCid: string): { cid: string; reason: string; atSeconds: number }[] {
    const rows = this.#denied.all(afterCid)
    return rows.map(({ cid, reason, at }) => ({ cid: String(cid), reason: String(reason), atSeconds: Number(at) }))
  }

  pins(afterCid: string): PinState[] {
    return this.#pins.all(afterCid).map(({ cid, state, is_in_doubt, attempts, claimed_until }) => ({
      cid: String(cid),
      // The table allows no other.
      state: state as PinState['state'],
      isInDoubt: is_in_doubt === 1 || Number(attempts) > 0 || Number(claimed_until) > 0
    }))
  }
}
