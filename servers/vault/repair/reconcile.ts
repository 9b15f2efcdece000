import { setTimeout as pause } from 'node:timers/promises'
import { checkBlocks } from './check-blocks.js'
import { checkContents } from './check-contents.js'
import { checkIntents, type PinCheckParts } from './check-intents.js'
import { checkNode } from './check-node.js'
import { checkOwners } from './check-owners.js'
import { counted, type Finding } from './finding.js'
import type { PinOutbox } from '../pins/pin-outbox.js'

/** What `reconcile` works on. */
export interface ReconcileParts extends PinCheckParts {
  /** Undefined without a node. */
  outbox: Pick<PinOutbox, 'drain'> | undefined
}

/** The outbox goes on as long as it gets something done in so many milliseconds. */
const DRAIN_MILLISECONDS = 60_000
/** What a server beside us has in hand is done by then. */
const SERVER_MILLISECONDS = 2_000

/**
 * Compares index, content, counters and pins with each other and with the node, and puts right what is wrong: also beside
 * a running server, and for a million entries.
 *
 * @param out - gets one line for each check
 * @returns whether all is in order now
 */
export async function reconcile(parts: ReconcileParts, out: (line: string) => void): Promise<boolean> {
  const checks: readonly (() => Finding | Promise<Finding>)[] = [
    () => checkContents(parts),
    () => checkBlocks(parts),
    () => checkOwners(parts),
    // Without a node nothing is wanted of one.
    ...(parts.node === undefined ? [] : [() => checkIntents(parts)]),
    () => checkNode(parts),
    () => drain(parts)
  ]
  let isInOrder = true
  for (const check of checks) {
    const { text, repairs, faults } = await check()
    out(text)
    if (faults > 0 || (parts.isDryRun && repairs > 0)) isInOrder = false
  }
  return isInOrder
}

async function drain({ intents, outbox, isDryRun }: ReconcileParts): Promise<Finding> {
  // What a server beside us wants from now on is its own to do.
  const now = intents.lastRevision()
  let pending = intents.countOpen(now)
  if (isDryRun && pending > 0) {
    await pause(SERVER_MILLISECONDS)
    pending = intents.countOpen(now)
  }
  if (outbox !== undefined && !isDryRun) {
    await intents.makeDue(Math.floor(Date.now() / 1_000))
    for (let before = Infinity; pending > 0 && pending < before;) {
      before = pending
      await outbox.drain(DRAIN_MILLISECONDS)
      pending = intents.countOpen(now)
    }
  }
  // Without a node, what it once pinned is nobody's fault.
  const faults = outbox === undefined ? 0 : pending
  return { text: `outbox: ${pending === 0 ? 'nothing' : counted(pending, 'pin')} pending`, repairs: 0, faults }
}
