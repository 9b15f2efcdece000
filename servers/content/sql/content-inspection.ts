import type { SqlRow } from 'express-did-auth/server-kit'
import type { CheckMode, EntryPlace, NewContent, ObjectStore } from '../content-store.js'
import type { RunContentVerb } from './content-dialect.js'
import * as entries from './entry-verbs.js'
import * as files from './file-verbs.js'
import * as garbage from './garbage-verbs.js'
import * as inspect from './inspection-verbs.js'
import { readPages, readRows } from './inspection-verbs.js'
import type { DatabaseCheck, DatabaseVerbs, PageReader, RowsName } from './inspection-verbs.js'
import { listCids, toEntryPlace, type ContentRow, type UploadNeeded } from './rows.js'

/** Objects in a batch. */
const BATCH_OBJECTS = 200
/** Unlimited quota for copies, because the source store has already granted the space. */
const NO_QUOTA = { maxBytes: Infinity, maxEntries: Infinity }

/** Access to a store for an operator's commands, while servers may use the store. */
export type ContentInspection = ReturnType<typeof createInspection>

/** Stores content by a verb that writes its row. @throws as the verb; ServerError ERR_STORAGE_FULL, ERR_STORAGE */
export type StoreContent = <T extends object>(
  content: NewContent,
  verb: (row: ContentRow) => Promise<T | UploadNeeded>
) => Promise<T>

/** Parts of a store that its inspection uses. */
interface InspectionParts {
  readonly run: RunContentVerb
  readonly databaseVerbs: DatabaseVerbs
  readonly objects: Pick<ObjectStore, 'list'>
  readonly storeContent: StoreContent
  readonly nowSeconds: () => number
}

/** Creates the actions of commands on a store. Each action runs several short verbs. */
// eslint-disable-next-line @typescript-eslint/explicit-module-boundary-types -- its type is what it returns
export function createInspection({ run, objects, nowSeconds, storeContent, databaseVerbs }: InspectionParts) {
  const reader: PageReader = { readPage: (name, after) => run(inspect.readPage, name, after) }

  /** Corrects faulty rows page by page. @returns the number of faulty rows */
  async function correctEach(
    name: RowsName,
    { isDryRun }: CheckMode,
    correct: (cids: readonly string[]) => Promise<void>
  ): Promise<number> {
    let count = 0
    for await (const { items } of readRows(reader, name)) {
      count += items.length
      if (!isDryRun && items.length > 0) await correct(listCids(items))
    }
    return count
  }

  return {
    ...reader,
    listUsedContents: (afterCid: string, limit: number) => run(inspect.listUsedContents, afterCid, limit),
    countEntries: (cid: string) => run(inspect.countEntries, cid),
    listNumberedEntries: (place: EntryPlace) => run(inspect.listNumberedEntries, place),
    readLastNumber: () => run(inspect.readLastNumber),
    reserveNumbers: (number: number) => run(inspect.reserveNumbers, number),
    importPins: (pins: readonly SqlRow[]) => run(inspect.importPins, pins),

    async checkDatabase({ isDryRun }: CheckMode): Promise<DatabaseCheck> {
      const before = await run(databaseVerbs.findFaults)
      if (before.damage.length > 0 || before.indexes.length === 0 || isDryRun) return before
      await run(databaseVerbs.rebuildIndexes, before.indexes)
      const after = await run(databaseVerbs.findFaults)
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
      for await (const { items } of readRows(reader, 'lostLists')) damagedLists.push(...items.map(toEntryPlace))
      let owners = 0
      for await (const { items, miscounted } of readPages(0, (afterId: number) =>
        run(inspect.inspectOwners, afterId)
      )) {
        damagedLists.push(...items)
        owners += miscounted.length
        if (!isDryRun && miscounted.length > 0) await run(inspect.recountOwners, miscounted)
      }
      if (acceptsDamage && !isDryRun) for (const place of damagedLists) await run(inspect.acceptList, place)
      const unusedContents = await correctEach('unusedContents', mode, (cids) =>
        run(inspect.addUnreferenced, cids, nowSeconds())
      )
      let afterCid: string | undefined = isDryRun ? undefined : ''
      while (afterCid !== undefined) afterCid = await run(garbage.collectUnreferenced, afterCid, nowSeconds())
      return { owners, damagedLists, unusedContents }
    },

    /** Finds objects that no content uses, and marks them as garbage. @returns their number */
    async checkObjects({ isDryRun }: CheckMode): Promise<number> {
      let unused = 0
      const check = async (names: readonly string[]): Promise<void> => {
        const unknown = await run(inspect.findUnknownObjects, names)
        unused += unknown.length
        if (!isDryRun && unknown.length > 0) await run(inspect.addGarbage, unknown, nowSeconds())
      }
      const names: string[] = []
      for await (const name of objects.list()) if (names.push(name) === BATCH_OBJECTS) await check(names.splice(0))
      await check(names)
      return unused
    },

    /** Corrects the pin ledger by the stored content. @returns the numbers of missing and surplus pins */
    async trackPins(mode: CheckMode): Promise<{ toPin: number; toUnpin: number }> {
      const toPin = await correctEach('missingPins', mode, (cids) => run(inspect.addMissingPins, cids))
      return { toPin, toUnpin: await correctEach('surplusPins', mode, (cids) => run(inspect.removeSurplusPins, cids)) }
    },

    /**
     * Stores an entry with the number that it has in another store, so that its position stays the same. Requests no
     * pin.
     *
     * @throws ServerError ERR_TAKEN_DOWN, ERR_STORAGE_FULL, ERR_STORAGE
     */
    async importEntry(content: NewContent, entry: EntryPlace & { readonly number: number }): Promise<void> {
      const write = { ...entry, replaces: 'nothing', quota: NO_QUOTA, tracksPins: false } as const
      await storeContent(content, (row) => run(entries.writeEntry, { ...write, content: row }, nowSeconds()))
    },

    /**
     * Stores a file, or extends the expiry of a stored one, without counting it for a user.
     * @throws as `importEntry`
     */
    async importFile(content: NewContent, expiresAtSeconds: number): Promise<void> {
      const file = { expiresAtSeconds, nowSeconds: nowSeconds(), tracksPins: false }
      await storeContent(content, (row) => run(files.writeFile, { ...file, content: row }))
    }
  }
}
