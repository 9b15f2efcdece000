import type { ContentInfo, EntryList, EntryPlace, KeyedEntry, ListDescription, Usage } from '../content-store.js'
import { etagOf, isListOf, NO_LIST, stateOf, type Entry } from '../list-state.js'
import { errorOf } from '../storage-error.js'
import type { ContentDatabase, Row } from './content-database.js'
import { entryOf, numberOf } from './entry-rows.js'

const REPEATABLE = { isRepeatable: true }

/** Reads of entries, one statement each, so that lists and their rows are of one moment. */
export class EntryReads {
  readonly #database: ContentDatabase
  readonly #describe
  readonly #list
  readonly #own
  readonly #usage

  constructor(database: ContentDatabase) {
    this.#database = database
    const { statement } = database
    this.#describe = statement(
      'describe_list',
      'SELECT l.entry_count, l.hash FROM ~owners o JOIN ~lists l ON l.owner = o.id WHERE o.did = $1 AND l.key = $2'
    )
    const entriesWhere = (condition: string): string => `WITH owner AS (SELECT id FROM ~owners WHERE did = $1)
      SELECT key, hash, entry_count, 0 AS number, NULL AS cid, 0 AS byte_count, 0 AS json_byte_count
        FROM ~lists WHERE owner = (SELECT id FROM owner) ${condition}
      UNION ALL SELECT key, NULL, 0, number, cid, byte_count, json_byte_count
        FROM ~entries WHERE owner = (SELECT id FROM owner) ${condition} ORDER BY number`
    this.#list = statement('list_entries', entriesWhere('AND key = $2'))
    this.#own = statement('list_own_entries', entriesWhere(''))
    this.#usage = statement('usage', 'SELECT byte_count, entry_count FROM ~owners WHERE did = $1')
  }

  async describe({ did, key }: EntryPlace): Promise<ListDescription> {
    const { rows } = await this.#database.query(this.#describe, [did, key], REPEATABLE)
    const state = rows[0] === undefined ? NO_LIST : stateOf(rows[0])
    return { etag: etagOf(state), entryCount: state.entryCount }
  }

  /** @throws ServerError ERR_STORAGE when the list is not the one that was written */
  async list({ did, key }: EntryPlace): Promise<EntryList> {
    const { rows } = await this.#database.query(this.#list, [did, key], REPEATABLE)
    const [row] = rows.filter(isList)
    const state = row === undefined ? NO_LIST : stateOf(row)
    const entries = rows.filter((one) => !isList(one)).map(entryOf)
    if (!isListOf(entries, state)) throw damaged()
    return { etag: etagOf(state), entries: entries.map(infoOf) }
  }

  /** @throws as `list` */
  async listOwn(did: string): Promise<KeyedEntry[]> {
    const { rows } = await this.#database.query(this.#own, [did], REPEATABLE)
    const entries = rows.filter((row) => !isList(row)).map((row) => ({ key: String(row.key), ...entryOf(row) }))
    if (damagedLists(rows).length > 0) throw damaged()
    return entries.map(({ key, ...entry }) => ({ key, ...infoOf(entry) }))
  }

  async usageOf(did: string): Promise<Usage> {
    const [row] = (await this.#database.query(this.#usage, [did], REPEATABLE)).rows
    return { byteCount: numberOf(row?.byte_count ?? 0), entryCount: numberOf(row?.entry_count ?? 0) }
  }
}

/**
 * Keys of one owner whose list is not the one that was written.
 *
 * @param rows - of lists, with `hash`, and of entries, in their order
 */
export function damagedLists(rows: readonly Row[]): string[] {
  const byKey = new Map<string, Entry[]>()
  for (const row of rows) {
    if (isList(row)) continue
    const entries = byKey.get(String(row.key)) ?? []
    entries.push(entryOf(row))
    byKey.set(String(row.key), entries)
  }
  const lists = new Map(rows.filter(isList).map((row) => [String(row.key), stateOf(row)]))
  const keys = [...new Set([...byKey.keys(), ...lists.keys()])]
  return keys.filter((key) => !isListOf(byKey.get(key) ?? [], lists.get(key) ?? NO_LIST))
}

function isList(row: Row): boolean {
  return row.hash !== null
}

function infoOf({ cid, byteCount, jsonByteCount }: Entry): ContentInfo {
  return { cid, byteCount, jsonByteCount }
}

function damaged(): Error {
  return errorOf({ refused: 'ERR_STORAGE', detail: 'a list is damaged' })
}
