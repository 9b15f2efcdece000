import { isDamaged, type SqlQuery } from 'express-did-auth/server-kit'
import { sqliteContents } from './content-dialect.js'
import { createContentVerbs } from './content-verbs.js'
import type { DatabaseVerbs } from './inspection-verbs.js'

/** Pattern of problems that rebuilding the indexes repairs. */
const OF_INDEX =
  /(?:missing from index|wrong # of entries in index|non-unique entry in index|values? differs? from index) ?(\w*)/

const databaseVerbs: DatabaseVerbs = {
  findFaults: async (query) => {
    const problems = await findProblems(query)
    const indexes = problems.flatMap((line) => OF_INDEX.exec(line)?.[1] ?? [])
    return { indexes: [...new Set(indexes)], damage: problems.filter((line) => !OF_INDEX.test(line)) }
  },
  rebuildIndexes: async (query) => {
    await query({ text: 'REINDEX' })
  }
}

/** All that the threads of a file run. */
export type SqliteVerbs = ReturnType<typeof createSqliteVerbs>['verbs']

/**
 * Returns the verbs of contents and those on the file as a whole. `reads` and `ofFile` are the names of those that run
 * outside of a transaction; the latter write.
 */
export function createSqliteVerbs() {
  const { verbs, reads } = createContentVerbs(sqliteContents, databaseVerbs)
  const ofFile = {
    async vacuum(query: SqlQuery): Promise<void> {
      await query({ text: 'VACUUM' })
    },

    /** Empties the log of changes. @returns false when something reads it */
    async truncateLog(query: SqlQuery): Promise<boolean> {
      return (await query({ text: 'PRAGMA wal_checkpoint(TRUNCATE)' })).rows[0]?.busy === 0
    }
  }
  return { verbs: { ...verbs, ...ofFile }, reads, ofFile: Object.keys(ofFile) }
}

async function findProblems(query: SqlQuery): Promise<string[]> {
  try {
    const { rows } = await query({ text: 'PRAGMA integrity_check' })
    return rows
      .flatMap(({ integrity_check: text }) => String(text).split('\n'))
      .filter((line) => line !== 'ok' && !line.startsWith('***'))
  } catch (error) {
    // A file may be so damaged that not even the check of it runs.
    if (!isDamaged(error)) throw error
    return [error instanceof Error ? error.message : String(error)]
  }
}
