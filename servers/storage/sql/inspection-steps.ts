import type { VerbMethods } from 'express-did-auth/server-kit'
import type { CheckMode, EntryPlace, NewContent } from '../content-store.js'
import { listCids } from './content-steps.js'
import type { ContentVerbs } from './content-verbs.js'
import { toEntryPlace } from './entry-verbs.js'
import type { DatabaseCheck } from './inspection-verbs.js'
import type { ObjectWriter, ObjectWriterParts } from './object-writer.js'
import { readPages, readRows, type RowsName } from './page-verbs.js'

const OBJECTS = 200
/** Unlimited quota, because the source store has already granted the space. */
const NO_QUOTA = { maxBytes: Infinity, maxEntries: Infinity }

/** Access of an operator's commands to a store, from which or to which they copy while servers use it. */
export type ContentInspection = ReturnType<typeof createInspectionSteps>

/** Creates the actions of commands on a store. Each runs a few short verbs. */
export function createInspectionSteps(
  verbs: VerbMethods<ContentVerbs>,
  { objects, nowSeconds }: Pick<ObjectWriterParts, 'objects' | 'nowSeconds'>,
  writer: ObjectWriter
) {
  /** Corrects faulty rows, a page at a time. @returns their number */
  async function correctEach(
    what: RowsName,
    { isDryRun }: CheckMode,
    correct: (cids: readonly string[]) => Promise<void>
  ): Promise<number> {
    let count = 0
    for await (const { items } of readRows(verbs, what)) {
      count += items.length
      if (!isDryRun && items.length > 0) await correct(listCids(items))
    }
    return count
  }

  return {
    ...verbs,

    async checkDatabase({ isDryRun }: CheckMode): Promise<DatabaseCheck> {
      const before = await verbs.findFaults()
      if (before.damage.length > 0 || before.indexes.length === 0 || isDryRun) return before
      await verbs.rebuildIndexes(before.indexes)
      const after = await verbs.findFaults()
      const damage = [...after.damage, ...after.indexes.map((index) => `index ${index} cannot be rebuilt`)]
      return { damage, indexes: before.indexes }
    },

    /**
     * Corrects what follows from entries.
     *
     * @returns `owners`: users whose usage was counted wrong. `damagedLists`: they are not those that were written;
     *   where damage is accepted, what is left is the list from then on. `unusedContents`: nothing uses them; deleted
     */
    async recount(mode: CheckMode) {
      const { isDryRun, acceptsDamage = false } = mode
      const damagedLists: EntryPlace[] = []
      for await (const { items } of readRows(verbs, 'lostLists')) damagedLists.push(...items.map(toEntryPlace))
      let owners = 0
      for await (const { items, miscounted } of readPages(0, verbs.inspectOwners)) {
        damagedLists.push(...items)
        owners += miscounted.length
        if (!isDryRun && miscounted.length > 0) await verbs.recountOwners(miscounted)
      }
      if (acceptsDamage && !isDryRun) for (const place of damagedLists) await verbs.acceptList(place)
      const unusedContents = await correctEach('unusedContents', mode, (cids) =>
        verbs.addUnreferenced(cids, nowSeconds())
      )
      let after: string | undefined = isDryRun ? undefined : ''
      while (after !== undefined) after = await verbs.collectUnreferenced(after, nowSeconds())
      return { owners, damagedLists, unusedContents }
    },

    /** Finds objects that no content names, and leaves them to the collector. @returns how many */
    async checkObjects({ isDryRun }: CheckMode): Promise<number> {
      let unused = 0
      const check = async (names: readonly string[]): Promise<void> => {
        const unknown = await verbs.findUnknownObjects(names)
        unused += unknown.length
        if (!isDryRun && unknown.length > 0) await verbs.addGarbage(unknown, nowSeconds())
      }
      const names: string[] = []
      for await (const name of objects.list()) if (names.push(name) === OBJECTS) await check(names.splice(0))
      await check(names)
      return unused
    },

    /** Derives the pin ledger from the stored content. */
    async trackPins(mode: CheckMode): Promise<{ toPin: number; toUnpin: number }> {
      const toPin = await correctEach('missingPins', mode, verbs.addMissingPins)
      return { toPin, toUnpin: await correctEach('surplusPins', mode, verbs.removeSurplusPins) }
    },

    /**
     * Stores an entry under the number that it has elsewhere, which is its place in its list, without a pin.
     *
     * @throws ServerError ERR_TAKEN_DOWN, ERR_STORAGE_FULL, ERR_STORAGE
     */
    async importEntry(content: NewContent, entry: EntryPlace & { readonly number: number }): Promise<void> {
      const write = { ...entry, replaces: 'nothing', quota: NO_QUOTA, tracksPins: false } as const
      await writer.store(content, (row) => verbs.writeEntry({ ...write, content: row }, nowSeconds()))
    },

    /** Stores a file without counting it for a user, or extends the expiry of a stored one. @throws as `importEntry` */
    async importFile(content: NewContent, expiresAtSeconds: number): Promise<void> {
      const file = { expiresAtSeconds, nowSeconds: nowSeconds(), tracksPins: false }
      await writer.store(content, (row) => verbs.writeFile({ ...file, content: row }))
    }
  }
}
