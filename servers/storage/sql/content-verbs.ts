import type { SqlQuery, SqlVerbs } from 'express-did-auth/server-kit'
import { toJsonArray, type ContentDialect } from './content-dialect.js'
import { createContentSteps } from './content-steps.js'
import { createEntrySteps, createEntryVerbs } from './entry-verbs.js'
import { createFileVerbs } from './file-verbs.js'
import { createGarbageVerbs } from './garbage-verbs.js'
import { createInspectionVerbs, type DatabaseVerbs } from './inspection-verbs.js'
import { createPageVerbs } from './page-verbs.js'
import { createPinVerbs } from './pin-verbs.js'
import { toFoundContent, type FoundContent } from './stored-content.js'

/** Verbs of contents on either engine, by name. They have no state between calls. */
export type ContentVerbs = ReturnType<typeof createContentVerbs>['verbs']

/**
 * Creates the verbs of contents. `reads` write nothing, and SQLite runs them outside of transactions. Each verb of
 * `transactions` is one transaction. In all other verbs, PostgreSQL runs each statement in its own transaction.
 */
export function createContentVerbs(dialect: ContentDialect, { findFaults, rebuildIndexes }: DatabaseVerbs) {
  const [content, steps] = [createContentSteps(dialect), createEntrySteps(dialect)]
  const [entries, files] = [createEntryVerbs(dialect, content, steps), createFileVerbs(dialect, content)]
  const [pins, pages] = [createPinVerbs(dialect), createPageVerbs(dialect)]
  const garbage = createGarbageVerbs(dialect, content, steps)
  const inspection = createInspectionVerbs(dialect, content, steps)
  const s = dialect.statements('contents', { find: `SELECT * FROM ~contents WHERE ${dialect.isIn('cid', '$1')}` })

  async function findContents(query: SqlQuery, cids: readonly string[]): Promise<(FoundContent | undefined)[]> {
    const { rows } = await query(s.find, [toJsonArray(cids)])
    const contents = new Map(rows.map((row) => [row.cid, toFoundContent(row)]))
    return cids.map((cid) => contents.get(cid))
  }

  const reads = {
    ...{ ...entries.reads, ...files.reads, ...pins.reads, ...garbage.reads, ...inspection.reads },
    ...{ ...pages.reads, findContents, findFaults }
  }
  const transactions = {
    ...{ ...entries.transactions, ...files.transactions, ...garbage.transactions },
    ...{ ...inspection.transactions, repairContent: content.repairContent }
  }
  const others = {
    ...{ ...pins.singles, ...garbage.singles, ...inspection.singles },
    ...{ rebuildIndexes, discardUpload: content.discardUpload }
  }
  return {
    verbs: { ...reads, ...transactions, ...others },
    reads: listNames(reads),
    transactions: listNames(transactions)
  }
}

/**
 * Verbs that are not repeated if the result of their commit is lost. A second attempt would undo later changes of
 * another device, or return a different result. All other verbs are idempotent. A repeated step of a takedown counts
 * only what it has removed itself.
 */
export const SINGLE_USE: ReadonlySet<string> = new Set<keyof ContentVerbs>([
  ...(['writeEntry', 'removeEntries', 'claim', 'finish', 'postpone', 'pinAgain', 'allow'] as const)
])

/** Verbs that free more space than they need. On a full disk, SQLite repeats them with its reserve. */
export const REMOVALS: ReadonlySet<string> = new Set<keyof ContentVerbs>([
  ...(['removeEntries', 'deleteExpiredFiles', 'claim', 'finish', 'postpone', 'deny', 'takeDownStep'] as const),
  ...(['collectUnreferenced', 'abandonUploads', 'forgetGarbage'] as const)
])

function listNames(verbs: SqlVerbs): ReadonlySet<string> {
  return new Set(Object.keys(verbs))
}
