import type { CheckMode } from './content-inspection.js'

/** Pins that are changed in one transaction. */
const PAGE = 1_000

/** A pin of the ledger; `isPinned`: it was carried out. */
export interface TrackedPin {
  readonly cid: string
  readonly isPinned: boolean
}

/** What the comparison asks of a ledger. */
export interface TrackedPins {
  /** A page, in the order of cids, from the one after `afterCid`; empty at the end. */
  list(afterCid: string): Promise<readonly TrackedPin[]>
  /** Makes what is tracked as pinned open again. @returns how many of these were */
  pinAgain(cids: readonly string[]): Promise<number>
}

/** Compares a ledger with what the node has, as `PinLedger.comparePins` says. */
export async function comparePins(
  pins: TrackedPins,
  listOnNode: () => Promise<ReadonlySet<string>>,
  { isDryRun }: CheckMode
): Promise<{ missing: number; others: number }> {
  const onNode = await listOnNode()
  let others = onNode.size
  const absent: string[] = []
  let page = await pins.list('')
  while (page.length > 0) {
    others -= page.filter(({ cid }) => onNode.has(cid)).length
    for (const { cid, isPinned } of page) if (isPinned && !onNode.has(cid)) absent.push(cid)
    page = await pins.list(page.at(-1)?.cid ?? '')
  }
  if (absent.length === 0) return { missing: 0, others }
  const onNodeNow = await listOnNode()
  const lost = absent.filter((cid) => !onNodeNow.has(cid))
  let missing = isDryRun ? lost.length : 0
  for (let start = 0; !isDryRun && start < lost.length; start += PAGE) {
    missing += await pins.pinAgain(lost.slice(start, start + PAGE))
  }
  return { missing, others }
}
