import { collectVerbs, isDamaged, verb, type ThreadDatabase } from 'express-did-auth/server-kit'
import type { ContentDialect, ContentQuery } from './content-dialect.js'
import * as contentSteps from './content-steps.js'
import * as entryVerbs from './entry-verbs.js'
import * as fileVerbs from './file-verbs.js'
import * as garbageVerbs from './garbage-verbs.js'
import * as inspectionVerbs from './inspection-verbs.js'
import type { DatabaseCheck } from './inspection-verbs.js'
import * as pinVerbs from './pin-verbs.js'

/** Settings of a thread of a content store. */
export interface ThreadSettings extends ThreadDatabase {
  /** Flag that the threads share, as in `ServedVerbs`. */
  readonly damage: Int32Array
}

/** Pattern of problems that can be repaired by rebuilding the indexes. */
const INDEX_PROBLEM =
  /(?:missing from index|wrong # of entries in index|non-unique entry in index|values? differs? from index) ?(\w*)/

/** Verbs on the file as a whole. */
export const fileAsWhole = {
  findFaults: verb('read', async (query: ContentQuery): Promise<DatabaseCheck> => {
    const problems = await findProblems(query)
    const indexes = problems.flatMap((line) => INDEX_PROBLEM.exec(line)?.[1] ?? [])
    return { indexes: [...new Set(indexes)], damage: problems.filter((line) => !INDEX_PROBLEM.test(line)) }
  }),

  rebuildIndexes: verb('write', async (query: ContentQuery, _indexes: readonly string[]) => {
    await query({ text: 'REINDEX' })
  }),

  vacuum: verb('file', async (query: ContentQuery) => {
    await query({ text: 'VACUUM' })
  }),

  /** Empties the write-ahead log. @returns false if another connection still reads the log */
  truncateLog: verb('file', async (query: ContentQuery) => {
    return (await query({ text: 'PRAGMA wal_checkpoint(TRUNCATE)' })).rows[0]?.busy === 0
  })
}

const MODULES = [contentSteps, entryVerbs, fileVerbs, garbageVerbs, inspectionVerbs, pinVerbs]

/** Verbs that the threads of a database run, by name. */
export const SQLITE_VERBS = collectVerbs<ContentDialect>(...MODULES, fileAsWhole)

async function findProblems(query: ContentQuery): Promise<string[]> {
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
