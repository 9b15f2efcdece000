import type { SqlQuery, SqlRow } from 'express-did-auth/server-kit'
import type { ClaimRequest, PinTask } from '../content-store.js'
import { toJsonArray, type ContentDialect } from './content-dialect.js'
import { listCids } from './content-steps.js'

/** Time after which a node has executed an earlier call, or never will. */
const DOUBT_SECONDS = 60

/**
 * Creates the verbs of the pin ledger. A pin in state `pin` or `unpin` is an open task; `pinned` is done. Claims skip
 * rows that another transaction has locked. A change of the desired state does not end a lease, because its call
 * continues.
 */
export function createPinVerbs({ statements, isIn, isFree, skipLocked, nextRevision, schemaPrefix }: ContentDialect) {
  // If a lease has expired, its worker has crashed or is late. The task is claimed again, with a new revision.
  const claim = (condition = ''): string => `WITH due AS (SELECT cid AS due_cid, claimed_until > 0 AS is_late,
      CASE WHEN claimed_until > 0 THEN ${nextRevision} ELSE revision END AS due_revision
      FROM ~pins WHERE state <> 'pinned' AND retry_at <= $1 AND claimed_until <= $1 ${condition}
      ORDER BY retry_at, revision LIMIT $2 ${skipLocked})
    UPDATE ~pins SET revision = due_revision, claimed_revision = due_revision, claimed_until = $3,
      is_in_doubt = CASE WHEN is_late THEN 1 ELSE is_in_doubt END, retry_at = CASE WHEN is_late THEN 0 ELSE retry_at END
    FROM due WHERE cid = due_cid RETURNING cid, state, revision, attempts, is_in_doubt, retry_at`
  const selectFailed = `SELECT cid FROM ~pins WHERE state <> 'pinned' AND retry_at > $1 AND attempts > 0`
  const selectLost = `SELECT cid FROM ~pins WHERE ${isIn('cid', '$1')} AND state = 'pinned'`
  const [free, whereTask] = ['claimed_revision = 0, claimed_until = 0', 'WHERE cid = $1 AND revision = $2']
  const s = statements('pin', {
    claimDue: claim(),
    claimNamed: claim(`AND ${isIn('cid', '$4')}`),
    pinned: `UPDATE ~pins SET state = 'pinned', attempts = 0, retry_at = 0, ${free} ${whereTask} AND state = 'pin'`,
    unpinned: `DELETE FROM ~pins ${whereTask} AND state = 'unpin'`,
    finishLater: `UPDATE ~pins SET is_in_doubt = 0, attempts = 0, retry_at = $3, ${free}
      ${whereTask} AND state <> 'pinned'`,
    postpone: `UPDATE ~pins SET attempts = attempts + 1, retry_at = $3, ${free} ${whereTask} AND state <> 'pinned'`,
    release: `UPDATE ~pins SET is_in_doubt = CASE WHEN $3 = 1 THEN 1 ELSE is_in_doubt END, ${free}
      WHERE cid = $1 AND claimed_revision = $2`,
    open: `SELECT cid FROM ~pins WHERE ${isIn('cid', '$1')} AND state <> 'pinned'`,
    countOpen: `SELECT ${schemaPrefix}count(*) AS number FROM ~pins WHERE state <> 'pinned'`,
    // Skips tasks that wait because they are in doubt, which have no failures.
    retry: `UPDATE ~pins SET retry_at = $1 WHERE ${isFree('cid', selectFailed)}`,
    again: `UPDATE ~pins SET state = 'pin', revision = ${nextRevision} WHERE ${isFree('cid', selectLost)}`
  })

  const singles = {
    async claim(query: SqlQuery, { cids, limit, nowSeconds, leaseSeconds }: ClaimRequest): Promise<PinTask[]> {
      const values = [nowSeconds, limit, nowSeconds + leaseSeconds]
      const { rows } = await (cids === undefined
        ? query(s.claimDue, values)
        : query(s.claimNamed, [...values, toJsonArray(cids)]))
      return rows.toSorted(compareByAge).map(toTask)
    },

    async finish(query: SqlQuery, task: PinTask, nowSeconds: number): Promise<boolean> {
      const { cid, desired, revision, isInDoubt } = task
      const { rowCount } = await (isInDoubt
        ? query(s.finishLater, [cid, revision, nowSeconds + DOUBT_SECONDS])
        : query(s[desired], [cid, revision]))
      if (rowCount === 0) await query(s.release, [cid, revision, 0])
      return rowCount === 1
    },

    async postpone(query: SqlQuery, { cid, revision }: PinTask, retryAtSeconds: number, wasCalled = true) {
      const { rowCount } = await query(s.postpone, [cid, revision, retryAtSeconds])
      // The node may still execute the failed call after the call for the new desired state.
      if (rowCount === 0) await query(s.release, [cid, revision, wasCalled ? 1 : 0])
      return rowCount === 1
    },

    async retryNow(query: SqlQuery, nowSeconds: number): Promise<void> {
      await query(s.retry, [nowSeconds])
    },

    /** Requests pins again that the node has lost. @returns their number */
    async pinAgain(query: SqlQuery, cids: readonly string[]): Promise<number> {
      return (await query(s.again, [toJsonArray(cids)])).rowCount
    }
  }

  const reads = {
    async findOpenPins(query: SqlQuery, cids: readonly string[]): Promise<string[]> {
      return listCids((await query(s.open, [toJsonArray(cids)])).rows)
    },

    async countOpen(query: SqlQuery): Promise<number> {
      return Number((await query(s.countOpen)).rows[0]?.number)
    }
  }

  return { singles, reads }
}

function compareByAge(left: SqlRow, right: SqlRow): number {
  return Number(left.retry_at) - Number(right.retry_at) || Number(left.revision) - Number(right.revision)
}

function toTask({ cid, state, revision, attempts, is_in_doubt }: SqlRow): PinTask {
  return {
    cid: String(cid),
    desired: state === 'pin' ? 'pinned' : 'unpinned',
    revision: Number(revision),
    attempts: Number(attempts),
    isInDoubt: is_in_doubt === 1
  }
}
