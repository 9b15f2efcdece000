import type { CheckMode } from './content-store.js'

/** What the IPFS node is to do for a cid. */
export interface PinTask {
  readonly cid: string
  readonly desired: 'pinned' | 'unpinned'
  /** Grows with each change of the desired state and each claim after a lease that ended, and never comes again. */
  readonly revision: number
  /** Failures since the desired state changed. */
  readonly attempts: number
  /** The node may still carry out an earlier call that failed half way: the task is repeated a minute later. */
  readonly isInDoubt: boolean
}

/** After so long, a node has carried out an earlier call, or never will. */
export const DOUBT_SECONDS = 60

export interface ClaimRequest {
  /** Only these, if given; otherwise those that are due, the oldest first. */
  readonly cids?: readonly string[]
  readonly limit: number
  readonly nowSeconds: number
  readonly leaseSeconds: number
}

/**
 * The desired state of the pins on the IPFS node, changed in the transaction that changes content. Pins of others are
 * not in here and are never touched.
 *
 * A worker claims tasks for a while (a lease). A lease that ended without an outcome leaves its task in doubt, under a
 * new revision, so that the worker which comes late has no say. A change of the desired state waits for the lease: the
 * calls for one cid never overtake each other.
 */
export interface PinLedger {
  claim(request: ClaimRequest): Promise<readonly PinTask[]>
  /** Notes that a task was carried out. False: the desired state has changed meanwhile, and the task is open again. */
  finish(task: PinTask, nowSeconds: number): Promise<boolean>
  /**
   * Notes that a task failed, and gives its lease back. False: the desired state has changed meanwhile, and the task is
   * open again.
   *
   * @param wasCalled - whether the node was called, and may carry the call out yet. Default true
   */
  postpone(task: PinTask, retryAtSeconds: number, wasCalled?: boolean): Promise<boolean>
  /** Whether nothing is open for any of these. */
  areSettled(cids: readonly string[]): Promise<boolean>
  /** Open tasks in all. */
  countOpen(): Promise<number>
  /** Makes all that waits after a failure due now. */
  retryNow(nowSeconds: number): Promise<void>
  /**
   * Compares the ledger with what the node has: a pin that is tracked and missing there becomes an open task again.
   *
   * @param listOnNode - lists the node's pins. Called again where some seem to be missing, because a running server may
   *   have made them after the first list
   */
  comparePins(
    listOnNode: () => Promise<ReadonlySet<string>>,
    mode?: CheckMode
  ): Promise<{ missing: number; others: number }>
}
