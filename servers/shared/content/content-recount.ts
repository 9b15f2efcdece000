import { childrenOf, isBlockOf, isLeaf } from './content-blocks.js'
import type { SqliteFile } from './database.js'

/** What is wrong with the blocks of a ContentStore. */
export interface BlockFaults {
  /** Blocks that no content uses. */
  unused: number
  /** Blocks with another number of uses than they have. */
  miscounted: number
  /** Content whose blocks cannot be told, because one above them is lost: no count counts as too high then. */
  unreadable: number
}

const BATCH = 500

/**
 * Compares the use counts of all blocks with the contents that are really kept, and puts them right.
 *
 * Beside a running server: the comparison reads one moment, and what it found is put right by its difference, which holds
 * whatever was added or removed meanwhile. Writers wait for a few hundred rows at most.
 *
 * @param rootsQuery - SQL for the cids of all that is kept, each once
 */
export function recountBlocks(database: SqliteFile, rootsQuery: string, isDryRun: boolean): BlockFaults {
  database.exec(`
    CREATE TEMP TABLE expected_uses (cid TEXT PRIMARY KEY, uses INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TEMP TABLE wrong_uses (number INTEGER PRIMARY KEY, cid TEXT NOT NULL, surplus INTEGER NOT NULL, expected INTEGER NOT NULL)`)
  try {
    const unreadable = database.transaction(() => compare(database, rootsQuery))()
    // What is lost may be repaired, and uses blocks that others use: until then a count is never too high.
    if (unreadable > 0) database.exec('DELETE FROM wrong_uses WHERE surplus > 0')
    const count = database.prepare<[], Omit<BlockFaults, 'unreadable'>>(
      'SELECT count(*) FILTER (WHERE expected = 0) AS unused, count(*) FILTER (WHERE expected > 0) AS miscounted FROM wrong_uses'
    )
    const { unused, miscounted } = count.get() ?? { unused: 0, miscounted: 0 }
    if (!isDryRun) putRight(database)
    return { unused, miscounted, unreadable }
  } finally {
    database.exec('DROP TABLE expected_uses; DROP TABLE wrong_uses')
  }
}

/** Fills the table of what is wrong; answers how many contents cannot be read. */
function compare(database: SqliteFile, rootsQuery: string): number {
  database.exec(`INSERT INTO expected_uses SELECT cid, 1 FROM (${rootsQuery})`)
  const nextRoots = database
    .prepare<[string, number], string>("SELECT cid FROM expected_uses WHERE cid > ? AND cid LIKE 'bafybei%' LIMIT ?")
    .pluck()
  // Children are collected apart, so that none is taken for a root.
  database.exec('CREATE TEMP TABLE child_uses (cid TEXT PRIMARY KEY, uses INTEGER NOT NULL) WITHOUT ROWID')
  const use = database.prepare<[string]>(
    'INSERT INTO child_uses VALUES (?, 1) ON CONFLICT (cid) DO UPDATE SET uses = uses + 1'
  )
  const find = database.prepare<[string], Buffer>('SELECT bytes FROM blocks WHERE cid = ?').pluck()
  let unreadable = 0
  let roots = nextRoots.all('', BATCH)
  while (roots.length > 0) {
    for (const root of roots) {
      const isReadable = walkBelow(
        root,
        (cid) => find.get(cid),
        (child) => use.run(child)
      )
      if (!isReadable) unreadable += 1
    }
    roots = nextRoots.all(roots.at(-1) ?? '', BATCH)
  }
  database.exec(`
    INSERT INTO expected_uses SELECT cid, uses FROM child_uses WHERE true
      ON CONFLICT (cid) DO UPDATE SET uses = expected_uses.uses + excluded.uses;
    DROP TABLE child_uses;
    INSERT INTO wrong_uses (cid, surplus, expected)
      SELECT cid, blocks.uses - ifnull(expected_uses.uses, 0), ifnull(expected_uses.uses, 0)
      FROM blocks LEFT JOIN expected_uses USING (cid) WHERE blocks.uses <> ifnull(expected_uses.uses, 0)`)
  return unreadable
}

/** Visits everything below a node, and answers whether all nodes were there. Leaves are not read. */
function walkBelow(root: string, find: (cid: string) => Buffer | undefined, visit: (cid: string) => void): boolean {
  const ahead = [root]
  for (let cid = ahead.pop(); cid !== undefined; cid = ahead.pop()) {
    if (isLeaf(cid)) continue
    const bytes = find(cid)
    if (bytes === undefined || !isBlockOf(cid, bytes)) return false
    for (const child of childrenOf({ cid, bytes })) {
      visit(child)
      ahead.push(child)
    }
  }
  return true
}

function putRight(database: SqliteFile): void {
  const next = database.prepare<[number, number], { number: number; cid: string; surplus: number }>(
    'SELECT number, cid, surplus FROM wrong_uses WHERE number > ? ORDER BY number LIMIT ?'
  )
  const take = database.prepare<[number, string]>('UPDATE blocks SET uses = uses - ? WHERE cid = ?')
  const drop = database.prepare<[string]>('DELETE FROM blocks WHERE cid = ? AND uses <= 0')
  let batch = next.all(0, BATCH)
  while (batch.length > 0) {
    const rows = batch
    database
      .transaction(() => {
        for (const { cid, surplus } of rows) {
          take.run(surplus, cid)
          drop.run(cid)
        }
      })
      .immediate()
    batch = next.all(batch.at(-1)?.number ?? 0, BATCH)
  }
}
