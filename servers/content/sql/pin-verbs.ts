import { verb, type SqlRow } from 'express-did-auth/server-kit'
import { limitMilliseconds } from '../../config/time-limits.js'
import type { ClaimRequest, PinTask } from '../content-store.js'
import { createStatements, type ContentDialect, type ContentQuery } from './content-dialect.js'
import { listCids, toTask } from './rows.js'

/** Time after which a node has executed an earlier call, or never will. */
const DOUBT_SECONDS = limitMilliseconds.pinDoubt / 1_000

/**
 * Statements of the pin ledger. A pin in state `pin` or `unpin` is an open task; `pinned` is done. Claims skip rows
 * that another transaction has locked. A change of the desired state does not end a lease, because its call continues.
 */
export const pinStatements = createStatements('pin', (dialect: ContentDialect) => {
  const { isIn, isFree, skipLocked, nextRevision, schemaPrefix } = dialect
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
  return {
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
  }
})

export const claim = verb(
  'write',
  async (query: ContentQuery, { cids, limit, nowSeconds, leaseSeconds }: ClaimRequest): Promise<PinTask[]> => {
    const values = [nowSeconds, limit, nowSeconds + leaseSeconds]
    const { rows } = await (cids === undefined
      ? query(pinStatements.claimDue, values)
      : query(pinStatements.claimNamed, [...values, JSON.stringify(cids)]))
    return rows.toSorted(compareByAge).map(toTask)
  },
  { isRepeatable: false, freesSpace: true }
)

export const finish = verb(
  'write',
  async (query: ContentQuery, task: PinTask, nowSeconds: number) => {
    const { cid, desired, revision, isInDoubt } = task
    const { rowCount } = await (isInDoubt
      ? query(pinStatements.finishLater, [cid, revision, nowSeconds + DOUBT_SECONDS])
      : query(pinStatements[desired], [cid, revision]))
    if (rowCount === 0) await query(pinStatements.release, [cid, revision, 0])
    return rowCount === 1
  },
  { isRepeatable: false, freesSpace: true }
)

export const postpone = verb(
  'write',
  async (query: ContentQuery, { cid, revision }: PinTask, retryAtSeconds: number, wasCalled = true) => {
    const { rowCount } = await query(pinStatements.postpone, [cid, revision, retryAtSeconds])
    // The node may still execute the failed call after the call for the new desired state.
    if (rowCount === 0) await query(pinStatements.release, [cid, revision, wasCalled ? 1 : 0])
    return rowCount === 1
  },
  { isRepeatable: false, freesSpace: true }
)

export const retryNow = verb('write', async (query: ContentQuery, nowSeconds: number) => {
  await query(pinStatements.retry, [nowSeconds])
})

/** Requests pins again that the node has lost. @returns their number */
export const pinAgain = verb(
  'write',
  async (query: ContentQuery, cids: readonly string[]) => {
    return (await query(pinStatements.again, [JSON.stringify(cids)])).rowCount
  },
  { isRepeatable: false }
)

export const findOpenPins = verb('read', async (query: ContentQuery, cids: readonly string[]) => {
  return listCids((await query(pinStatements.open, [JSON.stringify(cids)])).rows)
})

export const countOpen = verb('read', async (query: ContentQuery) => {
  return Number((await query(pinStatements.countOpen)).rows[0]?.number)
})

function compareByAge(left: SqlRow, right: SqlRow): number {
  return Number(left.retry_at) - Number(right.retry_at) || Number(left.revision) - Number(right.revision)
}
