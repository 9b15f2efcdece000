import type { VerbMethods } from 'express-did-auth/server-kit'
import type { CheckMode, EntryPlace, NewContent } from '../content-store.js'
import { listCids } from './content-steps.js'
import type { ContentVerbs } from './content-verbs.js'
import { toEntryPlace } from './entry-verbs.js'
import type { DatabaseCheck } from './inspection-verbs.js'
import type { ObjectWriter, ObjectWriterParts } from './object-writer.js'
import { readPages, readRows, type RowsName } from './page-verbs.js'

/** Objects in a batch. */
const BATCH_OBJECTS = 200
/** Unlimited quota for copies, because the source store has already granted the space. */
const NO_QUOTA = { maxBytes: Infinity, maxEntries: Infinity }

/** Access to a store for an operator's commands, while servers may use the store. */
export type ContentInspection = ReturnType<typeof createInspectionSteps>

/** Creates the actions of commands on a store. Each action runs several short verbs. */
export function createInspectionSteps(
  verbs: VerbMethods<ContentVerbs>,
  { objects, nowSeconds }: Pick<ObjectWriterParts, 'objects' | 'nowSeconds'>,
  writer: ObjectWriter
) {
  /** Corrects faulty rows page by page. @returns the number of faulty rows */
  async function correctEach(
    name: RowsName,
    { isDryRun }: CheckMode,
    correct: (cids: readonly string[]) => Promise<void>
  ): Promise<number> {
    let count = 0
    for await (const { items } of readRows(verbs, name)) {
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
     * Checks the data that is derived from entries, and corrects it.
     *
     * @returns `owners`: number of owners with a wrong usage. `damagedLists`: lists whose entries do not match; if
     *   damage is accepted, the remaining entries become the list. `unusedContents`: number of unused contents, which
     *   are deleted
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
      let afterCid: string | undefined = isDryRun ? undefined : ''
      while (afterCid !== undefined) afterCid = await verbs.collectUnreferenced(afterCid, nowSeconds())
      return { owners, damagedLists, unusedContents }
    },

    /** Finds objects that no content uses, and marks them as garbage. @returns their number */
    async checkObjects({ isDryRun }: CheckMode): Promise<number> {
      let unused = 0
      const check = async (names: readonly string[]): Promise<void> => {
        const unknown = await verbs.findUnknownObjects(names)
        unused += unknown.length
        if (!isDryRun && unknown.length > 0) await verbs.addGarbage(unknown, nowSeconds())
      }
      const names: string[] = []
      for await (const name of objects.list()) if (names.push(name) === BATCH_OBJECTS) await check(names.splice(0))
      await check(names)
      return unused
    },

    /** Corrects the pin ledger by the stored content. @returns the numbers of missing and surplus pins */
    async trackPins(mode: CheckMode): Promise<{ toPin: number; toUnpin: number }> {
      const toPin = await correctEach('missingPins', mode, verbs.addMissingPins)
      return { toPin, toUnpin: await correctEach('surplusPins', mode, verbs.removeSurplusPins) }
    },

    /**
     * Stores an entry with the number that it has in another store, so that its position stays the same. Requests no
     * pin.
     *
     * @throws ServerError ERR_TAKEN_DOWN, ERR_STORAGE_FULL, ERR_STORAGE
     */
    async importEntry(content: NewContent, entry: EntryPlace & { readonly number: number }): Promise<void> {
      const write = { ...entry, replaces: 'nothing', quota: NO_QUOTA, tracksPins: false } as const
      await writer.store(content, (row) => verbs.writeEntry({ ...write, content: row }, nowSeconds()))
    },

    /**
     * Stores a file, or extends the expiry of a stored one, without counting it for a user.
     * @throws as `importEntry`
     */
    async importFile(content: NewContent, expiresAtSeconds: number): Promise<void> {
      const file = { expiresAtSeconds, nowSeconds: nowSeconds(), tracksPins: false }
      await writer.store(content, (row) => verbs.writeFile({ ...file, content: row }))
    }
  }
}
