import { isDamaged, type SqlQuery } from 'express-did-auth/server-kit'
import { sqliteContents } from './content-dialect.js'
import { createContentVerbs } from './content-verbs.js'
import type { DatabaseVerbs } from './inspection-verbs.js'

/** Pattern of problems that can be repaired by rebuilding the indexes. */
const INDEX_PROBLEM =
  /(?:missing from index|wrong # of entries in index|non-unique entry in index|values? differs? from index) ?(\w*)/

const databaseVerbs: DatabaseVerbs = {
  findFaults: async (query) => {
    const problems = await findProblems(query)
    const indexes = problems.flatMap((line) => INDEX_PROBLEM.exec(line)?.[1] ?? [])
    return { indexes: [...new Set(indexes)], damage: problems.filter((line) => !INDEX_PROBLEM.test(line)) }
  },
  rebuildIndexes: async (query) => {
    await query({ text: 'REINDEX' })
  }
}

/** Verbs that the threads of a database run. */
export type SqliteVerbs = ReturnType<typeof createSqliteVerbs>['verbs']

/**
 * Creates the verbs of contents, and verbs on the file as a whole. `reads` and `fileVerbs` are the names of verbs that
 * run outside of transactions. `fileVerbs` write.
 */
export function createSqliteVerbs() {
  const { verbs, reads } = createContentVerbs(sqliteContents, databaseVerbs)
  const fileVerbs = {
    async vacuum(query: SqlQuery): Promise<void> {
      await query({ text: 'VACUUM' })
    },

    /** Empties the write-ahead log. @returns false if another connection still reads the log */
    async truncateLog(query: SqlQuery): Promise<boolean> {
      return (await query({ text: 'PRAGMA wal_checkpoint(TRUNCATE)' })).rows[0]?.busy === 0
    }
  }
  return { verbs: { ...verbs, ...fileVerbs }, reads, fileVerbs: Object.keys(fileVerbs) }
}

async function findProblems(query: SqlQuery): Promise<string[]> {
  try {
    const { rows } = await query({ text: 'PRAGMA integrity_check' })
    return rows
      .flatMap(({ integrity_check: text }) => String(text).split('\n'))
      .filter((line) => line !== 'ok' && !line.startsWith('***'))
  } catch (error) {
    // A file may be so damaged that even the check fails.
    if (!isDamaged(error)) throw error
    return [error instanceof Error ? error.message : String(error)]
  }
}
