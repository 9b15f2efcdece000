import type { CheckMode } from '../content-inspection.js'
import { comparePins, type ClaimRequest, type PinLedger, type PinTask, type TrackedPin } from '../pin-ledger.js'
import type { VerbCaller } from './verb-caller.js'

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
    mode: CheckMode = { isDryRun: false }
  ): Promise<{ missing: number; others: number }> {
    const list = (afterCid: string): Promise<TrackedPin[]> => this.verbs.call('pins', 'listPins', afterCid)
    const pinAgain = (cids: readonly string[]): Promise<number> => this.verbs.call('pins', 'pinAgain', cids)
    return comparePins({ list, pinAgain }, listOnNode, mode)
  }
}
