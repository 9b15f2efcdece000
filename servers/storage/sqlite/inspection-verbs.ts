import { isDamaged, type SqlConnection, type SqlRow, type SqlStatement } from 'express-did-auth/stores/sqlite'
import type { ContentInfo, EntryPlace } from '../content-store.js'
import type { Tables } from './content-verbs.js'

/** Rows that one verb looks at, so that a server beside it never waits for long. */
const BATCH = 200

/** Problems that go away when indexes are built again. */
const OF_INDEX =
  /(?:missing from index|wrong # of entries in index|non-unique entry in index|values? differs? from index) ?(\w*)/

/** What a verb that looks at a batch answers: what was wrong, and where the next batch begins; undefined at the end. */
export interface Batch<Position> {
  readonly wrong: number
  readonly next: Position | undefined
}

/** What an inspection asks, as the thread runs it. */
export class InspectionVerbs {
  readonly #connection: SqlConnection
  readonly #tables: Tables
  readonly #owners: SqlStatement
  readonly #recounted: SqlStatement
  readonly #correct: SqlStatement
  readonly #lists: SqlStatement
  readonly #unlisted: SqlStatement
  readonly #unused: SqlStatement
  readonly #usedByEntries: SqlStatement
  readonly #usedByFiles: SqlStatement
  readonly #untracked: SqlStatement
  readonly #tracked: SqlStatement
  readonly #uses: SqlStatement
  readonly #objectOf: SqlStatement
  readonly #isGarbage: SqlStatement
  readonly #addGarbage: SqlStatement

  constructor(connection: SqlConnection, tables: Tables) {
    this.#connection = connection
    this.#tables = tables
    this.#owners = connection.prepare(
      `SELECT id, did, byte_count, entry_count FROM owners WHERE id > ? ORDER BY id LIMIT ${BATCH}`
    )
    this.#recounted = connection.prepare(
      'SELECT ifnull(sum(byte_count), 0) AS byte_count, count(*) AS entry_count FROM entries WHERE owner = ?'
    )
    this.#correct = connection.prepare('UPDATE owners SET byte_count = ?, entry_count = ? WHERE id = ?')
    this.#lists = connection.prepare(
      `SELECT did, key FROM lists WHERE (did, key) > (?, ?) ORDER BY did, key LIMIT ${BATCH}`
    )
    this.#unlisted = connection.prepare(`SELECT DISTINCT key FROM entries WHERE owner = ?
      AND NOT EXISTS (SELECT 1 FROM lists WHERE lists.did = ? AND lists.key = entries.key)`)
    this.#unused = connection.prepare(`SELECT cid FROM contents WHERE cid > ?
      AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.cid = contents.cid)
      AND NOT EXISTS (SELECT 1 FROM relay_files WHERE relay_files.cid = contents.cid) ORDER BY cid LIMIT ${BATCH}`)
    this.#usedByEntries = connection.prepare(`SELECT cid, max(byte_count) AS byte_count,
      max(json_byte_count) AS json_byte_count FROM entries WHERE cid > ? GROUP BY cid ORDER BY cid LIMIT ?`)
    this.#usedByFiles = connection.prepare(
      'SELECT cid, byte_count, json_byte_count FROM relay_files WHERE cid > ? ORDER BY cid LIMIT ?'
    )
    this.#untracked = connection.prepare(`SELECT cid FROM contents WHERE cid > ?
      AND NOT EXISTS (SELECT 1 FROM pins WHERE pins.cid = contents.cid AND state <> 'unpin') ORDER BY cid LIMIT ${BATCH}`)
    this.#tracked = connection.prepare(`SELECT cid FROM pins WHERE cid > ? AND state <> 'unpin'
      AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.cid = pins.cid)
      AND NOT EXISTS (SELECT 1 FROM relay_files WHERE relay_files.cid = pins.cid) ORDER BY cid LIMIT ${BATCH}`)
    this.#uses = connection.prepare(
      'SELECT count(*) AS entries, count(DISTINCT owner) AS owners FROM entries WHERE cid = ?'
    )
    this.#objectOf = connection.prepare('SELECT object FROM contents WHERE cid = ?')
    this.#isGarbage = connection.prepare('SELECT 1 FROM garbage WHERE object = ?')
    this.#addGarbage = connection.prepare("INSERT OR IGNORE INTO garbage VALUES (?, 'removed', ?, 0)")
  }

  /** What SQLite finds wrong with its file: indexes that can be built again, and the rest. */
  checkFile(): { indexes: string[]; damage: string[] } {
    const problems = this.#problems()
    const indexes = problems.flatMap((line) => OF_INDEX.exec(line)?.[1] ?? [])
    return { indexes: [...new Set(indexes)], damage: problems.filter((line) => !OF_INDEX.test(line)) }
  }

  rebuildIndexes(): void {
    this.#connection.exec('REINDEX')
  }

  countOwners(afterId: number): Batch<number> {
    return this.#eachOwner(afterId, () => undefined)
  }

  correctOwners(afterId: number): Batch<number> {
    return this.#eachOwner(afterId, (id, { byte_count, entry_count }) => {
      this.#correct.run(byte_count ?? 0, entry_count ?? 0, id)
    })
  }

  /** Lists whose row does not fit their entries. What is missing can be derived from nothing. */
  damagedLists({ did, key }: EntryPlace): { damaged: EntryPlace[]; next: EntryPlace | undefined } {
    const places = this.#lists.all(did, key).map((row) => ({ did: String(row.did), key: String(row.key) }))
    const damaged = places.filter((place) => this.#tables.entries.list(place) === undefined)
    return { damaged, next: places.at(-1) }
  }

  /** Lists whose row is lost. */
  unlistedKeys(afterId: number): EntryPlace[] {
    return this.#owners
      .all(afterId)
      .flatMap(({ id, did }) =>
        this.#unlisted.all(Number(id), String(did)).map(({ key }) => ({ did: String(did), key: String(key) }))
      )
  }

  /** Makes lists of the entries that are left. */
  acceptLists(places: readonly EntryPlace[]): void {
    for (const place of places) this.#tables.entries.rebuildList(place)
  }

  listUnused(afterCid: string): string[] {
    return this.#unused.all(afterCid).map(({ cid }) => String(cid))
  }

  deleteUnused(cids: readonly string[], nowSeconds: number): void {
    for (const cid of cids) this.#tables.contents.dropUnused(cid, nowSeconds)
  }

  /** Content that entries or files have, in the order of cids, also where it is not here. */
  listUsed(afterCid: string, limit: number): ContentInfo[] {
    const rows = [...this.#usedByEntries.all(afterCid, limit), ...this.#usedByFiles.all(afterCid, limit)]
    const used = new Map(rows.map((row) => [String(row.cid), infoOf(row)]))
    return [...used.values()].sort((one, other) => (one.cid < other.cid ? -1 : 1)).slice(0, limit)
  }

  /** Content whose pin is not desired, and pins of what is not stored; the next of each. */
  listPinFaults(afterUntracked: string, afterTracked: string): { toPin: string[]; toUnpin: string[] } {
    const cidsOf = (rows: readonly SqlRow[]): string[] => rows.map(({ cid }) => String(cid))
    return { toPin: cidsOf(this.#untracked.all(afterUntracked)), toUnpin: cidsOf(this.#tracked.all(afterTracked)) }
  }

  /** Beside a running server, entries come and go between the look and the change. */
  correctPins(toPin: readonly string[], toUnpin: readonly string[]): void {
    for (const cid of toPin) if (this.#tables.contents.isUsed(cid)) this.#tables.pins.want(cid, true)
    for (const cid of toUnpin) if (!this.#tables.contents.isUsed(cid)) this.#tables.pins.unwant(cid)
  }

  countUses(cid: string): { entries: number; owners: number } {
    const { entries, owners } = this.#uses.get(cid) ?? {}
    return { entries: Number(entries ?? 0), owners: Number(owners ?? 0) }
  }

  /** Those of these objects that no content names and that are not yet garbage. */
  listUnknownObjects(names: readonly string[]): string[] {
    return names.filter((name) => {
      const [cid = ''] = name.split('.')
      return this.#objectOf.get(cid)?.object !== name && this.#isGarbage.get(name) === undefined
    })
  }

  addGarbage(names: readonly string[], nowSeconds: number): void {
    for (const name of names) this.#addGarbage.run(name, nowSeconds)
  }

  #problems(): string[] {
    try {
      return this.#connection
        .prepare('PRAGMA integrity_check')
        .all()
        .flatMap(({ integrity_check: text }) => String(text).split('\n'))
        .filter((line) => line !== 'ok' && !line.startsWith('***'))
    } catch (error) {
      // A file may be so damaged that not even the check of it runs.
      if (!isDamaged(error)) throw error
      return [error instanceof Error ? error.message : String(error)]
    }
  }

  #eachOwner(afterId: number, correct: (id: number, counted: SqlRow) => void): Batch<number> {
    const owners = this.#owners.all(afterId)
    let wrong = 0
    for (const { id, byte_count, entry_count } of owners) {
      const counted = this.#recounted.get(Number(id)) ?? {}
      if (counted.byte_count === byte_count && counted.entry_count === entry_count) continue
      wrong += 1
      correct(Number(id), counted)
    }
    return { wrong, next: lastId(owners) }
  }
}

function lastId(rows: readonly SqlRow[]): number | undefined {
  const last = rows.at(-1)
  return last && Number(last.id)
}

function infoOf({ cid, byte_count, json_byte_count }: SqlRow): ContentInfo {
  return { cid: String(cid), byteCount: Number(byte_count), jsonByteCount: Number(json_byte_count) }
}
