import { createSingleFlight, SweepClock, systemClock, type Clock, type SqlRow } from 'express-did-auth/server-kit'
import type { CheckMode, ContentStore, EntryPlace, NewContent, ObjectStore } from '../content-store.js'
import type { Spool } from '../files.js'
import { toStorageError, toVerbError } from '../storage-error.js'
import type { RunContentVerb } from './content-dialect.js'
import { findContents } from './content-steps.js'
import * as entries from './entry-verbs.js'
import * as files from './file-verbs.js'
import * as garbage from './garbage-verbs.js'
import * as inspect from './inspection-verbs.js'
import { readPages, readRows } from './inspection-verbs.js'
import type { DatabaseCheck, DatabaseVerbs, PageReader, RowsName } from './inspection-verbs.js'
import * as pins from './pin-verbs.js'
import { listCids, toEntryPlace } from './rows.js'
import { createContentWriter, createStoredContent } from './stored-content.js'

/** Objects in a batch. */
const BATCH_OBJECTS = 200
/** Unlimited quota for copies, because the source store has already granted the space. */
const NO_QUOTA = { maxBytes: Infinity, maxEntries: Infinity }
/** Minimum time for which the total size of all files is used before it is computed again. */
const SUM_SECONDS = 10
/** The same time as a multiple of the duration of the computation, which is 0.1 s for a million files. */
const SUM_FACTOR = 100

/** Parts of the storage that depend on the engine. */
export interface SqlContentEngine {
  readonly run: RunContentVerb
  readonly databaseVerbs: DatabaseVerbs
  readonly objects: ObjectStore
  readonly spool: Spool
  /** Erases remaining bytes of removed content. @returns descriptions of places that may still contain such bytes */
  readonly erase?: (wasInRow: boolean) => Promise<string[]>
  readonly onProbe?: () => void
  close(): Promise<void>
}

/** Open content storage of a server, on either engine. */
export interface OpenContentStore {
  readonly store: ContentStore
  /** Access for an operator's commands. */
  readonly inspection: ContentInspection
  /** Files for bodies that are being received. */
  readonly spool: Spool
}

/** Options of both engines. */
export interface ContentStoreSettings {
  /** Whether new content is pinned, because there is an IPFS node. Default false. */
  readonly tracksPins?: boolean
  readonly clock?: Clock
  /** Returns monotonic seconds since an arbitrary moment, which changes of the system clock do not affect. */
  readonly monotonicSeconds?: () => number
}

/** Creates the storage of relay or vault in SQL and objects. It runs verbs in the right order, and background work. */
export function createSqlContentStore(
  engine: SqlContentEngine,
  { tracksPins = false, clock = systemClock, monotonicSeconds = () => performance.now() / 1_000 }: ContentStoreSettings
): OpenContentStore {
  const { objects, spool } = engine
  const run: RunContentVerb = (verb, ...args) =>
    engine.run(verb, ...args).catch((error: unknown) => {
      throw toVerbError(error)
    })
  const now = (): number => clock.nowSeconds()
  const writer = createContentWriter({ objects, spool, run, nowSeconds: now })
  const inspection = createInspection({ ...engine, run, writer, nowSeconds: now })
  const sweepClock = new SweepClock(monotonicSeconds)
  // Make the first reading now, so that the sweep clock trusts the wall clock as early as possible.
  sweepClock.sweepSeconds(now())

  // The bound of all files is approximate, because every post would wait for the lock of an exact counter. Each
  // instance reads the sum every 10 s or less often, and adds the files that it stores. Meanwhile, several instances
  // together may exceed the bound.
  let usedBytes = 0
  let isFreshUntil = -Infinity
  const sumOnce = createSingleFlight<number>()
  const readUsedBytes = async (): Promise<number> => {
    if (monotonicSeconds() < isFreshUntil) return usedBytes
    return sumOnce(async () => {
      const startedAt = monotonicSeconds()
      usedBytes = await run(files.storedBytes)
      const endedAt = monotonicSeconds()
      isFreshUntil = endedAt + Math.max(SUM_SECONDS, SUM_FACTOR * (endedAt - startedAt))
      return usedBytes
    })
  }

  const collectGarbage: ContentStore['collectGarbage'] = async (nowSeconds, { isFull } = { isFull: false }) => {
    let afterCid: string | undefined = ''
    while (afterCid !== undefined) afterCid = await run(garbage.collectUnreferenced, afterCid, nowSeconds)
    const uploadsBefore = Math.min(nowSeconds, sweepClock.sweepSeconds(now()))
    if (Number.isFinite(uploadsBefore)) await run(garbage.abandonUploads, uploadsBefore)
    // Only a store whose deletions break running reads waits for readers, and not while it is full.
    const waitsForReaders = objects.breaksReaders === true && !isFull
    await deleteGarbage({ run, objects }, waitsForReaders ? nowSeconds : Number.MAX_SAFE_INTEGER)
    isFreshUntil = -Infinity
  }

  const store: ContentStore = {
    writeEntry: ({ content, ...write }) =>
      writer.store(content, (row) => run(entries.writeEntry, { ...write, content: row, tracksPins }, now())),
    removeEntries: (removal) => run(entries.removeEntries, removal, now()),
    describeList: (place) => run(entries.describeList, place),
    listEntries: (place) => run(entries.listEntries, place),
    listOwnEntries: (did) => run(entries.listOwnEntries, did),
    readUsage: (did) => run(entries.readUsage, did),

    async writeFile({ did, content, nowSeconds, ttlSeconds, bounds }) {
      const post = { did, bounds, usedBytes: await readUsedBytes() }
      const file = { expiresAtSeconds: nowSeconds + ttlSeconds, nowSeconds, tracksPins, post }
      const { changedPins, neededBytes } = await writer.store(content, (row) =>
        run(files.writeFile, { ...file, content: row })
      )
      usedBytes += neededBytes
      return { changedPins }
    },
    findFile: (cid, nowSeconds) => run(files.findFile, cid, nowSeconds),
    async deleteExpiredFiles(beforeSeconds) {
      const sweepable = Math.min(beforeSeconds, sweepClock.sweepSeconds(now()))
      return Number.isFinite(sweepable) && run(files.deleteExpiredFiles, sweepable)
    },

    async readContents(cids) {
      const contents = await run(findContents, cids)
      return contents.map((content) => content && createStoredContent(content, objects))
    },
    repairContent: (content) => writer.repair(content),

    async takeDown(cid, reason, nowSeconds) {
      // First refuse the content, so that nothing is added while the entries are removed.
      await run(garbage.deny, cid, reason, nowSeconds)
      let [removed, step] = [0, { removed: 0, isDone: false, wasInRow: false }]
      while (!step.isDone) {
        step = await run(garbage.takeDownStep, cid, nowSeconds)
        removed += step.removed
      }
      await collectGarbage(nowSeconds)
      // Logs, replicas and backups of PostgreSQL and snapshots of disks may also contain it. They are unknown here.
      return { removed, remains: (await engine.erase?.(step.wasInRow)) ?? [] }
    },

    allow: (cid) => run(garbage.allow, cid),
    isTakenDown: (cid) => run(garbage.isTakenDown, cid),
    collectGarbage,
    storedBytes: () => run(files.storedBytes),
    async probe() {
      await run(garbage.probe)
      engine.onProbe?.()
    },
    close: () => engine.close(),

    claim: (request) => run(pins.claim, request),
    finish: (task, nowSeconds) => run(pins.finish, task, nowSeconds),
    postpone: (task, retryAtSeconds, wasCalled) => run(pins.postpone, task, retryAtSeconds, wasCalled),
    countOpen: () => run(pins.countOpen),
    retryNow: (nowSeconds) => run(pins.retryNow, nowSeconds),
    areSettled: async (cids) => (await run(pins.findOpenPins, cids)).length === 0,
    async comparePins(listOnNode, { isDryRun } = { isDryRun: false }) {
      const onNode = await listOnNode()
      let others = onNode.size
      const absentPages: string[][] = []
      for await (const { items } of readRows(inspection, 'pins')) {
        others -= listCids(items).filter((cid) => onNode.has(cid)).length
        const absentItems = items.filter(({ state, cid }) => state === 'pinned' && !onNode.has(String(cid)))
        if (absentItems.length > 0) absentPages.push(listCids(absentItems))
      }
      const onNodeNow = absentPages.length === 0 ? onNode : await listOnNode()
      let missing = 0
      for (const cids of absentPages) {
        const lost = cids.filter((cid) => !onNodeNow.has(cid))
        missing += isDryRun ? lost.length : await run(pins.pinAgain, lost)
      }
      return { missing, others }
    }
  }
  return { store, inspection, spool }
}

/**
 * Deletes objects that are garbage. Continues after a failure.
 *
 * @param readersEndSeconds - as in `findGarbage`
 * @throws the first failure at the end
 */
async function deleteGarbage(
  { run, objects }: Pick<SqlContentEngine, 'run' | 'objects'>,
  readersEndSeconds: number
): Promise<void> {
  let failure: unknown
  for await (const { items } of readPages('', (after: string) => run(garbage.findGarbage, after, readersEndSeconds))) {
    const deleted: string[] = []
    for (const { object, overwrite } of items) {
      try {
        await objects.delete(object, { overwrite })
        deleted.push(object)
      } catch (error) {
        failure ??= error
      }
    }
    if (deleted.length > 0) await run(garbage.forgetGarbage, deleted)
  }
  if (failure !== undefined) throw toStorageError(failure)
}

/** Access to a store for an operator's commands, while servers may use the store. */
export type ContentInspection = ReturnType<typeof createInspection>

/** Parts of a store that its inspection uses. */
interface InspectionParts extends Pick<SqlContentEngine, 'run' | 'objects' | 'databaseVerbs'> {
  readonly nowSeconds: () => number
  readonly writer: ReturnType<typeof createContentWriter>
}

/** Creates the actions of commands on a store. Each action runs several short verbs. */
function createInspection({ run, objects, nowSeconds, writer, databaseVerbs }: InspectionParts) {
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
      await writer.store(content, (row) => run(entries.writeEntry, { ...write, content: row }, nowSeconds()))
    },

    /**
     * Stores a file, or extends the expiry of a stored one, without counting it for a user.
     * @throws as `importEntry`
     */
    async importFile(content: NewContent, expiresAtSeconds: number): Promise<void> {
      const file = { expiresAtSeconds, nowSeconds: nowSeconds(), tracksPins: false }
      await writer.store(content, (row) => run(files.writeFile, { ...file, content: row }))
    }
  }
}
