import type { QuotaCharge, QuotaState } from '../../ports.js'
import { MemoryQuotas } from '../memory/memory-quotas.js'
import { GroupCommit, type Outcomes, type Request } from './group-commit.js'
import { QuotaVerbs } from './quota-database.js'
import { parseChargeRow, toStateRow, type ChargeRow } from './quota-row.js'
import { isDiskFull } from './sqlite-error.js'
import type { SqlConnection } from './sqlite-engine.js'

/** Quotas of each kind that are counted in memory while the disk is full. */
const MAX_IN_MEMORY = 100_000

/**
 * Counts quotas in a database. While the disk is full it counts them in memory, on top of the last counts on disk, so that
 * guarded reads and deletes go on.
 */
export class QuotaCounter implements Outcomes {
  readonly #outcomes: Outcomes
  readonly #onDiskFull: () => void
  readonly #verbs: QuotaVerbs
  readonly #commits: GroupCommit
  readonly #inMemory: Readonly<Record<QuotaCharge['kind'], MemoryQuotas>>

  /** @param onDiskFull - called with each charge that is counted in memory */
  constructor(connection: SqlConnection, maxQuotas: number, outcomes: Outcomes, onDiskFull: () => void) {
    this.#outcomes = outcomes
    this.#onDiskFull = onDiskFull
    this.#verbs = new QuotaVerbs(connection, maxQuotas)
    this.#commits = new GroupCommit(connection, this.#verbs, this)
    this.#inMemory = { request: new MemoryQuotas(MAX_IN_MEMORY), anonymous: new MemoryQuotas(MAX_IN_MEMORY) }
  }

  /** As `GroupCommit.add`. */
  add(request: Request, since: number): void {
    this.#commits.add(request, since)
  }

  /** As `GroupCommit.run`. */
  run(onCommitted: () => void): void {
    this.#commits.run(onCommitted)
  }

  /** Deletes some of the quotas that ended. True when there may be more. */
  sweep(sweepSeconds: number): boolean {
    return this.#commits.attempt(() => this.#verbs.sweep(sweepSeconds)) ?? false
  }

  succeed(id: number, result: unknown): void {
    this.#outcomes.succeed(id, result)
  }

  fail(id: number, error: unknown, request: Request): void {
    if (!isDiskFull(error)) {
      this.#outcomes.fail(id, error, request)
      return
    }
    this.#onDiskFull()
    this.#outcomes.succeed(id, toStateRow(this.#countInMemory(parseChargeRow(request[2] as ChargeRow))))
  }

  #countInMemory(charge: QuotaCharge): QuotaState {
    const onDisk = this.#verbs.read(charge)
    const { limit = Infinity } = charge
    const state = this.#inMemory[charge.kind].charge({ ...charge, limit: limit - (onDisk?.count ?? 0) })
    if (onDisk === undefined) return state
    return { ...state, count: onDisk.count + state.count, resetsAtSeconds: onDisk.resetsAtSeconds }
  }
}
