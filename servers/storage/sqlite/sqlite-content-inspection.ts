import type { Clock } from 'express-did-auth'
import type {
  CheckMode,
  ContentExport,
  ContentInspection,
  DatabaseCheck,
  PinState,
  Recount
} from '../content-inspection.js'
import type { ContentInfo, EntryPlace } from '../content-store.js'
import type { FileRow } from '../quota.js'
import type { Entry } from '../list-state.js'
import type { ObjectStore } from '../object-store.js'
import type { Batch } from './inspection-verbs.js'
import type { VerbCaller } from './verb-caller.js'

const OBJECTS = 200

/** Inspection of a content store on SQLite, in short verbs that a server on the same file hardly notices. */
export class SqliteContentInspection implements ContentInspection, ContentExport {
  readonly #verbs: VerbCaller
  readonly #objects: Pick<ObjectStore, 'list'>
  readonly #clock: Clock

  constructor(verbs: VerbCaller, objects: Pick<ObjectStore, 'list'>, clock: Clock) {
    this.#verbs = verbs
    this.#objects = objects
    this.#clock = clock
  }

  async checkDatabase({ isDryRun }: CheckMode): Promise<DatabaseCheck> {
    const before = await this.#verbs.call('inspection', 'checkFile')
    if (before.damage.length > 0 || before.indexes.length === 0 || isDryRun) return before
    await this.#verbs.call('inspection', 'rebuildIndexes')
    const after = await this.#verbs.call('inspection', 'checkFile')
    const damage = [...after.damage, ...after.indexes.map((index) => `index ${index} cannot be rebuilt`)]
    return { damage, indexes: before.indexes }
  }

  async recount({ isDryRun, acceptsDamage = false }: CheckMode): Promise<Recount> {
    let [owners, unusedContents] = [0, 0]
    const damagedLists = await this.#damagedLists()
    if (acceptsDamage && !isDryRun) await this.#verbs.call('inspection', 'acceptLists', damagedLists)
    for (let after: number | undefined = 0; after !== undefined;) {
      const counted: Batch<number> = isDryRun
        ? await this.#verbs.call('inspection', 'countOwners', after)
        : await this.#verbs.call('inspection', 'correctOwners', after)
      owners += counted.wrong
      after = counted.next
    }
    for (let cids = await this.#verbs.call('inspection', 'listUnused', ''); cids.length > 0;) {
      unusedContents += cids.length
      if (!isDryRun) await this.#verbs.call('inspection', 'deleteUnused', cids, this.#clock.nowSeconds())
      cids = await this.#verbs.call('inspection', 'listUnused', cids.at(-1) ?? '')
    }
    return { owners, damagedLists, unusedContents }
  }

  async checkObjects({ isDryRun }: CheckMode): Promise<{ unused: number }> {
    let unused = 0
    let names: string[] = []
    const check = async (): Promise<void> => {
      const unknown = await this.#verbs.call('inspection', 'listUnknownObjects', names)
      unused += unknown.length
      if (!isDryRun && unknown.length > 0)
        await this.#verbs.call('inspection', 'addGarbage', unknown, this.#clock.nowSeconds())
      names = []
    }
    for await (const name of this.#objects.list()) {
      names.push(name)
      if (names.length === OBJECTS) await check()
    }
    if (names.length > 0) await check()
    return { unused }
  }

  async listUsedContents(afterCid: string, limit: number): Promise<readonly ContentInfo[]> {
    return this.#verbs.call('inspection', 'listUsed', afterCid, limit)
  }

  async trackPins({ isDryRun }: CheckMode): Promise<{ toPin: number; toUnpin: number }> {
    const sum = { toPin: 0, toUnpin: 0 }
    let faults = await this.#verbs.call('inspection', 'listPinFaults', '', '')
    let [lastPin, lastUnpin] = ['', '']
    while (faults.toPin.length + faults.toUnpin.length > 0) {
      sum.toPin += faults.toPin.length
      sum.toUnpin += faults.toUnpin.length
      if (!isDryRun) await this.#verbs.call('inspection', 'correctPins', faults.toPin, faults.toUnpin)
      lastPin = faults.toPin.at(-1) ?? lastPin
      lastUnpin = faults.toUnpin.at(-1) ?? lastUnpin
      faults = await this.#verbs.call('inspection', 'listPinFaults', lastPin, lastUnpin)
    }
    return sum
  }

  async countUses(cid: string): Promise<{ entries: number; owners: number }> {
    return this.#verbs.call('inspection', 'countUses', cid)
  }

  async lastNumber(): Promise<number> {
    return this.#verbs.call('exports', 'lastNumber')
  }

  async exportLists(after: EntryPlace): Promise<(EntryPlace & { etag: string })[]> {
    return this.#verbs.call('exports', 'lists', after)
  }

  async exportEntries(place: EntryPlace): Promise<Entry[]> {
    return this.#verbs.call('exports', 'entries', place)
  }

  async exportFiles(afterCid: string): Promise<FileRow[]> {
    return this.#verbs.call('exports', 'files', afterCid)
  }

  async exportDenied(afterCid: string): Promise<{ cid: string; reason: string; atSeconds: number }[]> {
    return this.#verbs.call('exports', 'denied', afterCid)
  }

  async exportPins(afterCid: string): Promise<PinState[]> {
    return this.#verbs.call('exports', 'pins', afterCid)
  }

  async #damagedLists(): Promise<EntryPlace[]> {
    const found: EntryPlace[] = []
    for (let after: EntryPlace | undefined = { did: '', key: '' }; after !== undefined;) {
      const checked: { damaged: EntryPlace[]; next: EntryPlace | undefined } = await this.#verbs.call(
        'inspection',
        'damagedLists',
        after
      )
      found.push(...checked.damaged)
      after = checked.next
    }
    for (let after: number | undefined = 0; after !== undefined;) {
      found.push(...(await this.#verbs.call('inspection', 'unlistedKeys', after)))
      const { next }: Batch<number> = await this.#verbs.call('inspection', 'countOwners', after)
      after = next
    }
    return found
  }
}
