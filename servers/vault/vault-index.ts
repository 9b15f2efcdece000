import type { SqliteFile } from '../shared/content/database.js'
import { createVaultTables } from './vault-schema.js'

/** Content under a key. */
export interface VaultEntry {
  /** The cid of its content. */
  id: string
  byteCount: number
}

/** The same with its key, where entries of many keys stand together. */
export interface KeyedEntry extends VaultEntry {
  key: string
}

/** What an owner's entries come to. */
export interface Usage {
  byteCount: number
  entryCount: number
}

interface Owner extends Usage {
  number: number
}

const ENTRY = 'cid AS id, entries.byte_count AS byteCount'
const OF_KEY = 'FROM owners JOIN entries ON entries.owner = owners.id WHERE did = ? AND key = ?'

/**
 * Who has which content under which key, in the order in which it was written.
 *
 * DIDs are canonical. No verb opens a transaction: content changes in the same one.
 */
export class VaultIndex {
  readonly #list
  readonly #first
  readonly #find
  readonly #findOne
  readonly #findAll
  readonly #owner
  readonly #addOwner
  readonly #count
  readonly #add
  readonly #remove
  readonly #removeAll
  readonly #holder
  readonly #ping

  constructor(database: SqliteFile) {
    createVaultTables(database)
    // All of it stands in the index: no entry itself is looked at.
    this.#list = database.prepare<[string, string], string>(`SELECT cid ${OF_KEY} ORDER BY entries.number`).pluck()
    this.#first = database.prepare<[string, string, number], string>(`SELECT cid ${OF_KEY} LIMIT ?`).pluck()
    this.#find = database.prepare<[string, string], VaultEntry>(`SELECT ${ENTRY} ${OF_KEY} ORDER BY entries.number`)
    this.#findOne = database.prepare<[string, string, string], VaultEntry>(`SELECT ${ENTRY} ${OF_KEY} AND cid = ?`)
    this.#findAll = database.prepare<[string], KeyedEntry>(
      `SELECT key, ${ENTRY} FROM owners JOIN entries ON entries.owner = owners.id WHERE did = ? ORDER BY entries.number`
    )
    this.#owner = database.prepare<[string], Owner>(
      'SELECT id AS number, byte_count AS byteCount, entry_count AS entryCount FROM owners WHERE did = ?'
    )
    this.#addOwner = database.prepare<[string]>('INSERT INTO owners (did, byte_count, entry_count) VALUES (?, 0, 0)')
    this.#count = database.prepare<[number, number, number]>(
      'UPDATE owners SET byte_count = byte_count + ?, entry_count = entry_count + ? WHERE id = ?'
    )
    this.#add = database.prepare<[number, string, string, number]>(
      'INSERT INTO entries (owner, key, cid, byte_count) VALUES (?, ?, ?, ?)'
    )
    this.#remove = database.prepare<[number, string, string]>(
      'DELETE FROM entries WHERE owner = ? AND key = ? AND cid = ?'
    )
    this.#removeAll = database.prepare<[number, string], VaultEntry>(
      'DELETE FROM entries WHERE owner = ? AND key = ? RETURNING cid AS id, byte_count AS byteCount'
    )
    this.#holder = database.prepare<[string]>('SELECT 1 FROM entries WHERE cid = ? LIMIT 1').pluck()
    this.#ping = database.prepare('SELECT version FROM vault_version')
  }

  /** The ids of a key, the first written first. */
  list(did: string, key: string): string[] {
    return this.#list.all(did, key)
  }

  /** Whether a key has more entries than so many, without looking at more. */
  hasMore(did: string, key: string, count: number): boolean {
    return this.#first.all(did, key, count + 1).length > count
  }

  /** The entries of a key, the first written first. */
  find(did: string, key: string): VaultEntry[] {
    return this.#find.all(did, key)
  }

  /** The entry of a key that has this content. */
  findOne(did: string, key: string, id: string): VaultEntry | undefined {
    return this.#findOne.get(did, key, id)
  }

  /** All entries of an owner, the first written first. */
  findAll(did: string): KeyedEntry[] {
    return this.#findAll.all(did)
  }

  usage(did: string): Usage {
    const { byteCount, entryCount } = this.#owner.get(did) ?? { byteCount: 0, entryCount: 0 }
    return { byteCount, entryCount }
  }

  /** Adds an entry that is not there, as the last. */
  add(did: string, key: string, { id, byteCount }: VaultEntry): void {
    const owner = this.#owner.get(did)?.number ?? Number(this.#addOwner.run(did).lastInsertRowid)
    this.#add.run(owner, key, id, byteCount)
    this.#count.run(byteCount, 1, owner)
  }

  /** Removes an entry that is there. */
  remove(did: string, key: string, { id, byteCount }: VaultEntry): void {
    const owner = this.#owner.get(did)
    if (owner === undefined) return
    this.#remove.run(owner.number, key, id)
    this.#count.run(-byteCount, -1, owner.number)
  }

  /** Removes all entries of a key, and answers which they were. */
  removeAll(did: string, key: string): VaultEntry[] {
    const owner = this.#owner.get(did)
    if (owner === undefined) return []
    const removed = this.#removeAll.all(owner.number, key)
    const byteCount = removed.reduce((sum, entry) => sum + entry.byteCount, 0)
    this.#count.run(-byteCount, -removed.length, owner.number)
    return removed
  }

  /** Whether any entry of anybody has this content. */
  isHeld(id: string): boolean {
    return this.#holder.get(id) !== undefined
  }

  /** @throws when the database cannot be read */
  ping(): void {
    this.#ping.get()
  }
}
