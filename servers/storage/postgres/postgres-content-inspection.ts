import type { Clock } from 'express-did-auth'
import type { CheckMode, ContentInspection, DatabaseCheck, Recount } from '../content-inspection.js'
import type { ContentInfo } from '../content-store.js'
import type { ObjectStore } from '../object-store.js'
import type { ContentDatabase, Row } from './content-database.js'
import { entryOf, numberOf } from './entry-rows.js'
import { ListInspection } from './list-inspection.js'
import { LooseContents, UNUSED } from './loose-contents.js'
import { PinInspection } from './pin-inspection.js'

/** Rows that one statement looks at. */
const BATCH = 1_000
const OBJECTS = 200

const REPEATABLE = { isRepeatable: true }

/**
 * Inspection of a content store in PostgreSQL, in short statements beside running servers. What foreign keys rule out is not
 * looked for, but that they are there is: a backup may have been restored without them.
 */
export class PostgresContentInspection implements ContentInspection {
  readonly #database: ContentDatabase
  readonly #objects: Pick<ObjectStore, 'list'>
  readonly #clock: Clock
  readonly #lists: ListInspection
  readonly #pins: PinInspection
  readonly #loose: LooseContents
  readonly #faults
  readonly #unused
  readonly #letGo
  readonly #unknownObjects
  readonly #addGarbage
  readonly #used
  readonly #uses

  constructor(database: ContentDatabase, objects: Pick<ObjectStore, 'list'>, clock: Clock) {
    this.#database = database
    this.#objects = objects
    this.#clock = clock
    this.#lists = new ListInspection(database)
    this.#pins = new PinInspection(database)
    this.#loose = new LooseContents(database)
    const { statement } = database
    this.#faults = statement(
      'faults_of_database',
      `SELECT 'checksums: ' || checksum_failures::text || ' pages of this database are damaged' AS damage, NULL AS index
         FROM pg_catalog.pg_stat_database WHERE datname = pg_catalog.current_database() AND checksum_failures > 0
       UNION ALL SELECT 'table ' || t.name || ' has no valid foreign key', NULL
         FROM pg_catalog.unnest(ARRAY['~entries', '~files', '~lists', '~object_pieces']) AS t (name)
         WHERE NOT EXISTS (SELECT 1 FROM pg_catalog.pg_constraint
           WHERE conrelid = pg_catalog.to_regclass(t.name)::oid AND contype = 'f' AND convalidated)
       UNION ALL SELECT NULL, i.indexrelid::regclass::text FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
         WHERE NOT i.indisvalid AND pg_catalog.starts_with(c.relname, '~') AND pg_catalog.pg_table_is_visible(c.oid)`
    )
    this.#unused = statement(
      'unused_contents',
      `SELECT cid, ${UNUSED}
         AND NOT EXISTS (SELECT 1 FROM ~loose l WHERE l.cid = c.cid) AS is_unused
       FROM ~contents c WHERE cid > $1 ORDER BY cid LIMIT ${BATCH}`
    )
    this.#letGo = statement(
      'let_go',
      `INSERT INTO ~loose (cid, since) SELECT one, $2 FROM pg_catalog.unnest($1::text[]) AS one ORDER BY one COLLATE "C"
       ON CONFLICT (cid) DO UPDATE SET since = excluded.since`
    )
    this.#unknownObjects = statement(
      'unknown_objects',
      `SELECT name FROM pg_catalog.unnest($1::text[]) AS name
       WHERE NOT EXISTS (SELECT 1 FROM ~contents WHERE cid = pg_catalog.split_part(name, '.', 1) AND object = name)
         AND NOT EXISTS (SELECT 1 FROM ~garbage WHERE object = name)`
    )
    this.#addGarbage = statement(
      'add_unknown_objects',
      `INSERT INTO ~garbage (object, cid, kind, since, byte_count)
       SELECT name, pg_catalog.split_part(name, '.', 1), 'removed', $2, 0
       FROM pg_catalog.unnest($1::text[]) AS name ON CONFLICT DO NOTHING`
    )
    this.#used = statement(
      'used_contents',
      `SELECT cid, byte_count, json_byte_count FROM ~contents c WHERE cid > $1
         AND NOT (${UNUSED})
       ORDER BY cid LIMIT $2`
    )
    this.#uses = statement(
      'count_uses',
      'SELECT pg_catalog.count(*) AS entries, pg_catalog.count(DISTINCT owner) AS owners FROM ~entries WHERE cid = $1'
    )
  }

  async checkDatabase({ isDryRun }: CheckMode): Promise<DatabaseCheck> {
    const { rows } = await this.#database.query(this.#faults, [], REPEATABLE)
    const textsOf = (column: 'damage' | 'index'): string[] =>
      rows.map((row) => row[column]).filter((text) => typeof text === 'string')
    const [damage, indexes] = [textsOf('damage'), textsOf('index')]
    if (isDryRun || damage.length > 0) return { damage, indexes }
    // Names of our own tables' indexes, quoted by PostgreSQL.
    for (const index of indexes) await this.#database.query({ name: '', text: `REINDEX INDEX ${index}` }, [])
    return { damage, indexes }
  }

  async recount({ isDryRun, acceptsDamage = false }: CheckMode): Promise<Recount> {
    const damagedLists = await this.#lists.findDamaged()
    if (acceptsDamage && !isDryRun) await this.#lists.accept(damagedLists)
    const owners = await this.#lists.recount(isDryRun)
    let unusedContents = 0
    for await (const rows of this.#pages(this.#unused)) {
      const cids = rows.filter(({ is_unused }) => is_unused === true).map(({ cid }) => String(cid))
      unusedContents += cids.length
      if (isDryRun || cids.length === 0) continue
      await this.#database.query(this.#letGo, [cids, this.#clock.nowSeconds()], REPEATABLE)
    }
    if (!isDryRun) await this.#loose.collect(this.#clock.nowSeconds())
    return { owners, damagedLists, unusedContents }
  }

  async checkObjects({ isDryRun }: CheckMode): Promise<{ unused: number }> {
    let unused = 0
    let names: string[] = []
    const check = async (): Promise<void> => {
      const { rows } = await this.#database.query(this.#unknownObjects, [names], REPEATABLE)
      const unknown = rows.map(({ name }) => String(name))
      unused += unknown.length
      if (!isDryRun && unknown.length > 0)
        await this.#database.query(this.#addGarbage, [unknown, this.#clock.nowSeconds()], REPEATABLE)
      names = []
    }
    for await (const name of this.#objects.list()) {
      names.push(name)
      if (names.length === OBJECTS) await check()
    }
    if (names.length > 0) await check()
    return { unused }
  }

  async listUsedContents(afterCid: string, limit: number): Promise<readonly ContentInfo[]> {
    const { rows } = await this.#database.query(this.#used, [afterCid, limit], REPEATABLE)
    return rows.map((row) => {
      const { cid, byteCount, jsonByteCount } = entryOf({ number: 0, ...row })
      return { cid, byteCount, jsonByteCount }
    })
  }

  async trackPins(mode: CheckMode): Promise<{ toPin: number; toUnpin: number }> {
    return this.#pins.track(mode)
  }

  async countUses(cid: string): Promise<{ entries: number; owners: number }> {
    const [row] = (await this.#database.query(this.#uses, [cid], REPEATABLE)).rows
    return { entries: numberOf(row?.entries), owners: numberOf(row?.owners) }
  }

  /** Pages of a statement whose rows are in the order of their cids. */
  async *#pages(statement: Parameters<ContentDatabase['query']>[0]): AsyncGenerator<readonly Row[], void, undefined> {
    for (let after = ''; ;) {
      const { rows } = await this.#database.query(statement, [after], REPEATABLE)
      if (rows.length === 0) return
      yield rows
      after = String(rows.at(-1)?.cid)
    }
  }
}
