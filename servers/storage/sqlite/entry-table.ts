import type { SqlConnection, SqlRow, SqlStatement } from 'express-did-auth/stores/sqlite'
import type { ContentInfo, EntryList, EntryPlace, KeyedEntry, Usage } from '../content-store.js'
import { addToHash, etagOf, hashOf, isListOf, NO_LIST, stateOf, type Entry, type ListState } from '../list-state.js'

export interface Owner extends Usage {
  readonly id: number
  readonly did: string
}

const NO_USAGE: Usage = { byteCount: 0, entryCount: 0 }

/** The verbs of owners, entries and their lists. They expect the caller's transaction. */
export class EntryTable {
  readonly #owner: SqlStatement
  readonly #addOwner: SqlStatement
  readonly #count: SqlStatement
  readonly #list: SqlStatement
  readonly #listsOf: SqlStatement
  readonly #setList: SqlStatement
  readonly #deleteList: SqlStatement
  readonly #ofKey: SqlStatement
  readonly #ofOwner: SqlStatement
  readonly #one: SqlStatement
  readonly #later: SqlStatement
  readonly #add: SqlStatement
  readonly #remove: SqlStatement
  readonly #withCid: SqlStatement
  readonly #resize: SqlStatement

  constructor(connection: SqlConnection) {
    this.#owner = connection.prepare('SELECT id, byte_count, entry_count FROM owners WHERE did = ?')
    this.#addOwner = connection.prepare('INSERT INTO owners (did, byte_count, entry_count) VALUES (?, 0, 0)')
    this.#count = connection.prepare(
      'UPDATE owners SET byte_count = byte_count + ?, entry_count = entry_count + ? WHERE id = ?'
    )
    this.#list = connection.prepare('SELECT entry_count, hash FROM lists WHERE did = ? AND key = ?')
    this.#listsOf = connection.prepare('SELECT key, entry_count, hash FROM lists WHERE did = ?')
    this.#setList = connection.prepare('INSERT OR REPLACE INTO lists VALUES (?, ?, ?, ?)')
    this.#deleteList = connection.prepare('DELETE FROM lists WHERE did = ? AND key = ?')
    this.#ofKey = connection.prepare('SELECT * FROM entries WHERE owner = ? AND key = ? ORDER BY number')
    this.#ofOwner = connection.prepare('SELECT * FROM entries WHERE owner = ? ORDER BY number')
    this.#one = connection.prepare('SELECT * FROM entries WHERE owner = ? AND key = ? AND cid = ?')
    this.#later = connection.prepare('SELECT 1 FROM entries WHERE owner = ? AND key = ? AND number > ? LIMIT 1')
    this.#add = connection.prepare(
      'INSERT INTO entries (owner, key, cid, byte_count, json_byte_count) VALUES (?, ?, ?, ?, ?)'
    )
    this.#remove = connection.prepare('DELETE FROM entries WHERE number = ?')
    this.#withCid = connection.prepare(
      'SELECT entries.*, did FROM entries JOIN owners ON owners.id = owner WHERE cid = ?'
    )
    this.#resize = connection.prepare('UPDATE entries SET json_byte_count = ? WHERE number = ?')
  }

  owner(did: string): Owner | undefined {
    const row = this.#owner.get(did)
    return row && { id: Number(row.id), did, byteCount: Number(row.byte_count), entryCount: Number(row.entry_count) }
  }

  addOwner(did: string): Owner {
    return { id: Number(this.#addOwner.run(did).lastInsertRowid), did, ...NO_USAGE }
  }

  listState({ did, key }: EntryPlace): ListState {
    const row = this.#list.get(did, key)
    return row === undefined ? NO_LIST : stateOf(row)
  }

  /** @returns undefined when it is not the list that was written */
  list(place: EntryPlace): EntryList | undefined {
    const owner = this.owner(place.did)
    const state = this.listState(place)
    const entries = owner === undefined ? [] : this.entriesOf(owner, place.key)
    if (!isListOf(entries, state)) return undefined
    return { etag: etagOf(state), entries: entries.map(infoOf) }
  }

  entriesOf(owner: Pick<Owner, 'id'>, key: string): Entry[] {
    return this.#ofKey.all(owner.id, key).map(entryOf)
  }

  /** Every entry of an owner. @returns as `list` */
  ofOwner(did: string): KeyedEntry[] | undefined {
    const owner = this.owner(did)
    const rows = owner === undefined ? [] : this.#ofOwner.all(owner.id)
    const byKey = new Map<string, Entry[]>()
    for (const row of rows) {
      const entries = byKey.get(String(row.key)) ?? []
      entries.push(entryOf(row))
      byKey.set(String(row.key), entries)
    }
    const lists = this.#listsOf.all(did)
    const isWhole = lists.every((list) => isListOf(byKey.get(String(list.key)) ?? [], stateOf(list)))
    if (!isWhole || lists.length !== byKey.size) return undefined
    return rows.map((row) => ({ key: String(row.key), ...infoOf(entryOf(row)) }))
  }

  find(owner: Owner, key: string, cid: string): Entry | undefined {
    const row = this.#one.get(owner.id, key, cid)
    return row && entryOf(row)
  }

  isLast(owner: Owner, key: string, { number }: Entry): boolean {
    return this.#later.get(owner.id, key, number) === undefined
  }

  /** Removes and adds entries of one key, and counts. @returns the list as it is now */
  change(owner: Owner, key: string, removed: readonly Entry[], added: readonly ContentInfo[]): ListState {
    const { did } = owner
    const before = this.listState({ did, key })
    const sum = Buffer.from(before.hash)
    let byteCount = 0
    for (const entry of removed) {
      this.#remove.run(entry.number)
      addToHash(sum, entry)
      byteCount -= entry.byteCount
    }
    for (const info of added) {
      const { lastInsertRowid } = this.#add.run(owner.id, key, info.cid, info.byteCount, info.jsonByteCount)
      addToHash(sum, { ...info, number: Number(lastInsertRowid) })
      byteCount += info.byteCount
    }
    const more = added.length - removed.length
    this.#count.run(byteCount, more, owner.id)
    const after = { entryCount: before.entryCount + more, hash: sum }
    if (after.entryCount === 0) this.#deleteList.run(did, key)
    else this.#setList.run(did, key, after.entryCount, after.hash)
    return after
  }

  /** Removes content from the lists of all owners. @returns how many entries had it */
  removeEverywhere(cid: string): number {
    const rows = this.#withCid.all(cid)
    for (const row of rows) this.change(ownerOf(row), String(row.key), [entryOf(row)], [])
    return rows.length
  }

  /** Corrects entries whose length as JSON was not known when they were written. */
  correct({ cid, jsonByteCount }: ContentInfo): void {
    for (const row of this.#withCid.all(cid)) {
      const [place, entry] = [{ did: String(row.did), key: String(row.key) }, entryOf(row)]
      if (entry.jsonByteCount === jsonByteCount) continue
      this.#resize.run(jsonByteCount, entry.number)
      const list = this.listState(place)
      const sum = Buffer.from(list.hash)
      addToHash(sum, entry)
      addToHash(sum, { ...entry, jsonByteCount })
      if (list.entryCount > 0) this.#setList.run(place.did, place.key, list.entryCount, sum)
    }
  }

  /** Writes the row of a list by the entries that are left of it. */
  rebuildList({ did, key }: EntryPlace): void {
    this.#deleteList.run(did, key)
    const owner = this.owner(did)
    if (owner !== undefined) this.buildList(owner, key)
  }

  /** Writes the row of a list by its entries: of a file that had none. */
  buildList(owner: Pick<Owner, 'id' | 'did'>, key: string): void {
    const entries = this.entriesOf(owner, key)
    if (entries.length > 0) this.#setList.run(owner.did, key, entries.length, hashOf(entries))
  }
}

function ownerOf(row: SqlRow): Owner {
  return { id: Number(row.owner), did: String(row.did), ...NO_USAGE }
}

function entryOf(row: SqlRow): Entry {
  const { number, cid, byte_count, json_byte_count } = row
  return {
    number: Number(number),
    cid: String(cid),
    byteCount: Number(byte_count),
    jsonByteCount: Number(json_byte_count)
  }
}

function infoOf({ cid, byteCount, jsonByteCount }: Entry): ContentInfo {
  return { cid, byteCount, jsonByteCount }
}
