import type { SqlQuery, SqlRow } from 'express-did-auth/server-kit'
import type { ClaimRequest, PinTask } from '../content-store.js'
import { list, type ContentDialect } from './content-dialect.js'
import { listCids } from './content-steps.js'

/** After so long, a node has carried out an earlier call, or never will. */
const DOUBT_SECONDS = 60

/**
 * The verbs of the pin ledger. A pin that is `pin` or `unpin` is open, `pinned` is done. Each statement claims rows, or
 * leaves those aside that another one has. A lease outlives a change of the desired state, as its call does.
 */
export function createPinVerbs({ statements, isIn, isFree, skipLocked, nextRevision, schemaPrefix }: ContentDialect) {
  // A lease that ended is a claimant that has ended half way, or is so late that another one has to be made.
  const claim = (condition = ''): string => `WITH due AS (SELECT cid AS due_cid, claimed_until > 0 AS is_late,
      CASE WHEN claimed_until > 0 THEN ${nextRevision} ELSE revision END AS due_revision
      FROM ~pins WHERE state <> 'pinned' AND retry_at <= $1 AND claimed_until <= $1 ${condition}
      ORDER BY retry_at, revision LIMIT $2 ${skipLocked})
    UPDATE ~pins SET revision = due_revision, claimed_revision = due_revision, claimed_until = $3,
      is_in_doubt = CASE WHEN is_late THEN 1 ELSE is_in_doubt END, retry_at = CASE WHEN is_late THEN 0 ELSE retry_at END
    FROM due WHERE cid = due_cid RETURNING cid, state, revision, attempts, is_in_doubt, retry_at`
  const failed = `SELECT cid FROM ~pins WHERE state <> 'pinned' AND retry_at > $1 AND attempts > 0`
  const lost = `SELECT cid FROM ~pins WHERE ${isIn('cid', '$1')} AND state = 'pinned'`
  const [free, ofTask] = ['claimed_revision = 0, claimed_until = 0', 'WHERE cid = $1 AND revision = $2']
  const s = statements('pin', {
    claimDue: claim(),
    claimNamed: claim(`AND ${isIn('cid', '$4')}`),
    pinned: `UPDATE ~pins SET state = 'pinned', attempts = 0, retry_at = 0, ${free} ${ofTask} AND state = 'pin'`,
    unpinned: `DELETE FROM ~pins ${ofTask} AND state = 'unpin'`,
    finishLater: `UPDATE ~pins SET is_in_doubt = 0, attempts = 0, retry_at = $3, ${free} ${ofTask} AND state <> 'pinned'`,
    postpone: `UPDATE ~pins SET attempts = attempts + 1, retry_at = $3, ${free} ${ofTask} AND state <> 'pinned'`,
    release: `UPDATE ~pins SET is_in_doubt = CASE WHEN $3 = 1 THEN 1 ELSE is_in_doubt END, ${free}
      WHERE cid = $1 AND claimed_revision = $2`,
    open: `SELECT cid FROM ~pins WHERE ${isIn('cid', '$1')} AND state <> 'pinned'`,
    countOpen: `SELECT ${schemaPrefix}count(*) AS number FROM ~pins WHERE state <> 'pinned'`,
    // Tasks that wait because they are in doubt are skipped: they have had no failure since.
    retry: `UPDATE ~pins SET retry_at = $1 WHERE ${isFree('cid', failed)}`,
    again: `UPDATE ~pins SET state = 'pin', revision = ${nextRevision} WHERE ${isFree('cid', lost)}`
  })

  const singles = {
    async claim(query: SqlQuery, { cids, limit, nowSeconds, leaseSeconds }: ClaimRequest): Promise<PinTask[]> {
      const values = [nowSeconds, limit, nowSeconds + leaseSeconds]
      const { rows } = await (cids === undefined
        ? query(s.claimDue, values)
        : query(s.claimNamed, [...values, list(cids)]))
      return rows.toSorted(orderByAge).map(toTask)
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
      // The call failed, and the node may carry it out after the next one.
      if (rowCount === 0) await query(s.release, [cid, revision, wasCalled ? 1 : 0])
      return rowCount === 1
    },

    async retryNow(query: SqlQuery, nowSeconds: number): Promise<void> {
      await query(s.retry, [nowSeconds])
    },

    /** The node has lost what it pinned. @returns how many of these are to be pinned again */
    async pinAgain(query: SqlQuery, cids: readonly string[]): Promise<number> {
      return (await query(s.again, [list(cids)])).rowCount
    }
  }

  const reads = {
    async findOpenPins(query: SqlQuery, cids: readonly string[]): Promise<string[]> {
      return listCids((await query(s.open, [list(cids)])).rows)
    },

    async countOpen(query: SqlQuery): Promise<number> {
      return Number((await query(s.countOpen)).rows[0]?.number)
    }
  }

  return { singles, reads }
}

function orderByAge(one: SqlRow, other: SqlRow): number {
  return Number(one.retry_at) - Number(other.retry_at) || Number(one.revision) - Number(other.revision)
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
