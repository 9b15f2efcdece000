import type { CheckMode } from '../content-inspection.js'
import type { PinLedger, PinTask } from '../pin-ledger.js'
import type { ClaimRequest } from './pin-table.js'
import type { VerbCaller } from './verb-caller.js'

/** Pins that are changed in one transaction. */
const PAGE = 1_000

/** The ledger of pins, by a thread. */
export class SqlitePinLedger implements PinLedger {
  protected readonly verbs: VerbCaller

  constructor(verbs: VerbCaller) {
    this.verbs = verbs
  }

  async claim(request: ClaimRequest): Promise<readonly PinTask[]> {
    return this.verbs.call('pins', 'claim', request)
  }

  async finish(task: PinTask, nowSeconds: number): Promise<boolean> {
    return this.verbs.call('pins', 'finish', task, nowSeconds)
  }

  async postpone(task: PinTask, retryAtSeconds: number, wasCalled = true): Promise<boolean> {
    return this.verbs.call('pins', 'postpone', task, retryAtSeconds, wasCalled)
  }

  async areSettled(cids: readonly string[]): Promise<boolean> {
    return (await this.verbs.call('pins', 'open', cids)).length === 0
  }

  async countOpen(): Promise<number> {
    return this.verbs.call('pins', 'countOpen')
  }

  async retryNow(nowSeconds: number): Promise<void> {
    await this.verbs.call('pins', 'retryNow', nowSeconds)
  }

  async comparePins(
    listOnNode: () => Promise<ReadonlySet<string>>,
    { isDryRun }: CheckMode = { isDryRun: false }
  ): Promise<{ missing: number; others: number }> {
    const onNode = await listOnNode()
    let others = onNode.size
    const absent: string[] = []
    let page = await this.verbs.call('pins', 'listPins', '')
    while (page.length > 0) {
      others -= page.filter(({ cid }) => onNode.has(cid)).length
      for (const { cid, isPinned } of page) if (isPinned && !onNode.has(cid)) absent.push(cid)
      page = await this.verbs.call('pins', 'listPins', page.at(-1)?.cid ?? '')
    }
    if (absent.length === 0) return { missing: 0, others }
    const onNodeNow = await listOnNode()
    const lost = absent.filter((cid) => !onNodeNow.has(cid))
    let missing = isDryRun ? lost.length : 0
    for (let start = 0; !isDryRun && start < lost.length; start += PAGE) {
      missing += await this.verbs.call('pins', 'pinAgain', lost.slice(start, start + PAGE))
    }
    return { missing, others }
  }
}
